"""Values that are stored come back as they were sent, or are refused at once, with the place and the remedy."""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given

from flask_geneva.errors import PayloadNotSerializable, ReferencedRecordMissing, SignalPayloadTooLarge
from flask_geneva.records.values import check_size, decode, encode, encoded_size, to_text
from tests.records.samples import SAMPLES, Colour, Mood, same, values


def through_text(value: Any) -> Any:
    return decode(json.loads(to_text(encode(value))), None)


@pytest.mark.parametrize("value", SAMPLES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_equal_and_of_its_own_type(value: Any) -> None:
    # RES-22, RES-23, SIG-05, SIG-06, SIG-07
    assert same(through_text(value), value)


@given(values)
def test_any_nesting_of_values_comes_back(value: Any) -> None:
    assert same(through_text(value), value)


@pytest.mark.parametrize("value", [0, "", [], {}, False])
def test_blank_values_are_values(value: Any) -> None:
    # RES-24, which lost them in the reference
    assert same(through_text(value), value)


def test_json_of_its_own_kind_is_stored_as_it_is() -> None:
    document = {"amount": 1250, "rate": 19.99, "tags": ["a", None, True], "note": "für Ada"}

    assert encode(document) == document


def test_the_stored_text_is_ascii_without_spaces() -> None:
    assert to_text(encode({"a": ["ü", 1]})) == r'{"a":["\u00fc",1]}'


def test_later_changes_of_the_value_are_not_stored() -> None:
    sent: dict[str, Any] = {"items": [1]}

    structure = encode(sent)
    sent["items"].append(2)

    assert structure == {"items": [1]}


def test_equal_sets_are_stored_alike() -> None:
    assert to_text(encode({"b", "a", "c"})) == to_text(encode({"c", "b", "a"}))


class Text(str):
    __slots__ = ()


Point = namedtuple("Point", "x y")


class Opaque:
    pass


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (Text("a"), "convert it with str(...) first"),
        (OrderedDict(a=1), "convert it with dict(...) first"),
        (Point(1, 2), "convert it with tuple(...) first"),
        (bytearray(b"a"), "pass None, bool, int"),
        (Opaque(), "pass None, bool, int"),
        (Opaque, "pass None, bool, int"),
        (1j, "pass None, bool, int"),
        ({1: 2}, "its key 1 is a int; make the keys str"),
        ({Mood.GLAD: 2}, "make the keys str"),
    ],
)
def test_what_would_not_come_back_as_it_was_is_refused_with_advice(value: Any, advice: str) -> None:
    # RES-25, SIG-11
    with pytest.raises(PayloadNotSerializable) as refused:
        encode(value)

    assert advice in str(refused.value)
    assert type(value).__qualname__ in str(refused.value)


def test_a_refusal_names_the_place_inside_the_value() -> None:
    value = {"items": [1, 2, {"when": (None, Opaque())}]}

    with pytest.raises(
        PayloadNotSerializable, match=r"Cannot store payload\['items'\]\[2\]\['when'\]\[1\], a Opaque: "
    ):
        encode(value)


def test_a_refusal_calls_the_value_by_the_name_given() -> None:
    with pytest.raises(PayloadNotSerializable, match=r"Cannot store the cursor\[0\], a object: "):
        encode([object()], name="the cursor")


def test_a_value_that_contains_itself_is_refused() -> None:
    circular: dict[str, Any] = {"a": []}
    circular["a"].append(circular)

    with pytest.raises(PayloadNotSerializable, match="it contains itself"):
        encode(circular)


@pytest.mark.parametrize("depth", [101, 100_000])
def test_a_bottomless_value_is_refused(depth: int) -> None:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]

    with pytest.raises(PayloadNotSerializable, match="nested deeper than 100 levels"):
        encode(value)


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: (inner,), lambda inner: {"$": inner}])
def test_a_deep_value_comes_back(wrap: Any) -> None:
    value: Any = 1
    for _ in range(100):
        value = wrap(value)

    assert same(through_text(value), value)


def test_one_object_in_two_places_is_no_circle() -> None:
    shared = [1]

    assert through_text({"a": shared, "b": shared}) == {"a": [1], "b": [1]}


class Sundial(tzinfo):
    """A zone of some other library."""

    def __init__(self, offset: timedelta | None) -> None:
        self.offset = offset

    def utcoffset(self, _moment: datetime | None) -> timedelta | None:
        return self.offset


def test_a_zone_of_another_library_is_kept_as_its_offset() -> None:
    moment = datetime(2026, 5, 1, 12, tzinfo=Sundial(timedelta(hours=2)))

    found = through_text(moment)

    assert found == moment
    assert found.tzinfo == timezone(timedelta(hours=2))


def test_a_zone_without_offset_or_name_is_refused() -> None:
    with open(ZoneInfo("UTC").key and "/usr/share/zoneinfo/UTC", "rb") as file:
        nameless = ZoneInfo.from_file(file)

    with pytest.raises(PayloadNotSerializable, match="has no key"):
        encode(datetime(2026, 1, 1, tzinfo=nameless))
    with pytest.raises(PayloadNotSerializable, match="has no offset"):
        encode(datetime(2026, 1, 1, tzinfo=Sundial(None)))


def test_an_unknown_zone_is_named_on_reading() -> None:
    with pytest.raises(ReferencedRecordMissing, match="'Moon/Tycho' is not known here"):
        decode({"$datetime": {"at": "2026-01-01T00:00:00", "zone": "Moon/Tycho"}}, None)


def test_the_datetimes_of_freezegun_stand_for_real_ones() -> None:
    fake_datetime = type("FakeDatetime", (datetime,), {"__module__": "freezegun.api"})

    assert same(through_text(fake_datetime(2026, 1, 2, 3)), datetime(2026, 1, 2, 3))


def test_an_enum_that_cannot_be_imported_again_is_refused() -> None:
    from enum import Enum

    class Hidden(Enum):
        ONE = 1

    with pytest.raises(PayloadNotSerializable, match="declare it at the top of a module"):
        encode(Hidden.ONE)


@pytest.mark.parametrize(
    ("stored", "missing"),
    [
        (["tests.records.samples:Colour", "BLUE"], "has no member 'BLUE'"),
        (["tests.records.samples:Gone", "RED"], "no Enum class 'tests.records.samples:Gone'"),
        (["tests.no_such_module:Colour", "RED"], "no Enum class 'tests.no_such_module:Colour'"),
        (["tests.records.samples:BERLIN", "RED"], "no Enum class"),
        (["builtins:int", "RED"], "no Enum class"),
    ],
)
def test_an_enum_member_that_is_gone_is_named(stored: list[str], missing: str) -> None:
    with pytest.raises(ReferencedRecordMissing, match=missing):
        decode({"$enum": stored}, None)  # type: ignore[dict-item]


def test_an_enum_member_is_found_by_name_whatever_its_value() -> None:
    assert encode(Colour.GREEN) == {"$enum": ["tests.records.samples:Colour", "GREEN"]}


@pytest.mark.parametrize("stored", [{"$later": 1}, {"$uuid": "no"}, {"$date": 5}, {"$decimal": "x"}, {"$tuple": 1}])
def test_json_that_this_version_did_not_write_is_an_error_that_says_so(stored: Any) -> None:
    with pytest.raises(PayloadNotSerializable, match="this version of Flask-Geneva does not write it so"):
        decode(stored, None)


def test_the_size_is_the_bytes_of_the_json() -> None:
    assert encoded_size({"a": "ü"}) == len('{"a":"ü"}'.encode())
    assert encoded_size(encode(UUID(int=0))) == len('{"$uuid":"00000000-0000-0000-0000-000000000000"}')


@pytest.mark.parametrize("limit", [7, 8, None])
def test_a_value_at_the_limit_passes(limit: int | None) -> None:
    # SIG-09, SIG-10, RES-27
    check_size({"a": 1}, limit, SignalPayloadTooLarge, "GENEVA_MAX_SIGNAL_PAYLOAD_SIZE", "the payload")


def test_a_value_above_the_limit_is_refused_with_both_sizes_and_the_setting() -> None:
    # SIG-09, RES-26
    with pytest.raises(SignalPayloadTooLarge) as refused:
        check_size({"a": 1}, 6, SignalPayloadTooLarge, "GENEVA_MAX_SIGNAL_PAYLOAD_SIZE", "the payload of 'paid'")

    text = str(refused.value)
    assert text.startswith("Cannot store the payload of 'paid': its JSON has 7 bytes, the limit is 6.")
    assert "'GENEVA_MAX_SIGNAL_PAYLOAD_SIZE'" in text
