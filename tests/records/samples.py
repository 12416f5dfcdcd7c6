"""Values of every kind that a payload may hold, and what it means that one came back as it was."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from hypothesis import strategies as st


class Colour(Enum):
    RED = (255, 0, 0)
    CRIMSON = (255, 0, 0)  # noqa: PIE796
    GREEN = (0, 255, 0)


class Size(IntEnum):
    SMALL = 1


class Mood(StrEnum):
    GLAD = "glad"


class Right(Flag):
    READ = 1
    WRITE = 2


class Mode(IntFlag):
    FAST = 1
    LOUD = 4


BERLIN = ZoneInfo("Europe/Berlin")
CEST = timezone(timedelta(hours=2), "CEST")

NUMBERS: list[Any] = [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64, -(10**30), 10**5000]
NUMBERS += [0.0, -0.0, 1.0, 1.5, 19.99, 0.1 + 0.2, 1e15, 1e16, 1e22, 1e-7, 5e-324, 1.7976931348623157e308]
NUMBERS += [float("nan"), float("inf"), float("-inf")]
NUMBERS += [Decimal(text) for text in ("1.10", "-0", "1E+5", "1E-400", "NaN", "sNaN7", "-Infinity")]
TEXTS: list[Any] = [
    "",
    "plain",
    'quo"ted\\',
    "NUL\0inside",
    "\ud800",
    "\ud83d\ude00",
    "😀",
    "äß\r\n\t",
    "$tuple",
    "\x7f\x80",
]
TIMES: list[Any] = [
    date(2026, 2, 28),
    date.min,
    datetime(2026, 1, 2, 3, 4, 5, 6),
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    datetime(2026, 1, 2, tzinfo=timezone(timedelta(seconds=7, microseconds=8))),
    datetime(2026, 1, 2, tzinfo=CEST),
    datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN),
    datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),
    datetime(2026, 1, 2, fold=1),
    datetime.max,
    time(1, 2, 3, 4),
    time(1, 2, tzinfo=UTC),
    time(1, 2, tzinfo=CEST, fold=1),
    time(1, 2, tzinfo=BERLIN),
    timedelta(days=-1, seconds=5, microseconds=3),
    timedelta.max,
]
MEMBERS: list[Any] = [Colour.RED, Colour.CRIMSON, Size.SMALL, Mood.GLAD, Right.READ]
MEMBERS += [Right.READ | Right.WRITE, Right(0), Mode.FAST | Mode.LOUD, Mode(64)]
CONTAINERS: list[Any] = [
    [],
    (),
    {},
    set(),
    frozenset(),
    [1, [2, (3,)]],
    (1, [2], (True, None)),
    {"a": {"b": [1.0, True, 1]}},
    {1, "1", (2, 3), Size.SMALL, None},
    frozenset({b"a", b"b"}),
    {"$tuple": [1]},
    {"$unknown": 1},
    {"$items": [["a", 1]], "other": 2},
    {"NUL\0key": 1, "\ud800": 2, "": 3},
    {"$": {"$": {}}},
]
SAMPLES: list[Any] = [None, True, False, b"", bytes(range(256)), UUID(int=7)]
SAMPLES += [*NUMBERS, *TEXTS, *TIMES, *MEMBERS, *CONTAINERS]

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.dates(),
    st.datetimes(timezones=st.none() | st.timezones(), allow_imaginary=True),
    st.times(timezones=st.none() | st.timezones()),
    st.timedeltas(),
    st.decimals(allow_nan=True),
    st.uuids(),
    st.sampled_from(MEMBERS),
)
# A signalling NaN has no hash.
_hashable = st.recursive(
    _scalars.filter(lambda value: not (isinstance(value, Decimal) and value.is_snan())),
    lambda inner: st.tuples(inner) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
_keys = st.text(st.characters()) | st.sampled_from(["$tuple", "$items", "$json", "$"])
values = st.recursive(
    _scalars | _hashable,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(_keys, inner, max_size=4),
        st.sets(_hashable, max_size=4),
    ),
    max_leaves=20,
)


def same(found: Any, sent: Any) -> bool:
    """Tell whether a value came back equal, of its own type, and so did all that is in it."""
    if type(found) is not type(sent):
        return False
    if isinstance(sent, list | tuple):
        return len(found) == len(sent) and all(map(same, found, sent))
    if isinstance(sent, dict):
        return found.keys() == sent.keys() and all(same(found[key], sent[key]) for key in sent)
    if isinstance(sent, set | frozenset):
        return len(found) == len(sent) and all(any(same(one, other) for other in found) for one in sent)
    if isinstance(sent, Enum):
        return found is sent or found == sent
    return found == sent if isinstance(sent, int) else repr(found) == repr(sent)
