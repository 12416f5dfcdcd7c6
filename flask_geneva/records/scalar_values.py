"""Values without parts as JSON: which are written plainly, and which as ``{"$tag": ...}``.

A number or a string is tagged only where one of the four databases would change or refuse it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flask_geneva.errors import ReferencedRecordMissing

Structure: TypeAlias = "bool | int | float | str | list[Structure] | dict[str, Structure] | None"

# MySQL's JSON keeps integers in 64 bit, and its parser may be one unit off in the last of 16 digits or more.
LARGEST_PLAIN_INT = 2**63 - 1
MOST_PLAIN_DIGITS = 15

_Clock = TypeVar("_Clock", datetime, time)


class Unstorable(Exception):
    """A value cannot be written; the text says why and what to do, without the place."""


@dataclass(frozen=True, kw_only=True)
class ScalarForm:
    """How one type is written under its tag, and read from it."""

    tag: str
    write: Callable[[Any], Structure]
    read: Callable[[Any], object]


def write_int(value: int) -> Structure:
    """Write an int; hexadecimal where it is large, since Python refuses to print huge decimals."""
    if -LARGEST_PLAIN_INT <= value <= LARGEST_PLAIN_INT:
        return value
    return {"$int": hex(value)}


def write_float(value: float) -> Structure:
    """Write a float; tagged where jsonb would drop a sign or make an integer of it, or JSON has no word for it."""
    text = repr(value)
    if text == "-0.0" or sum(map(str.isdigit, text)) > MOST_PLAIN_DIGITS or not set(text) <= set("-.0123456789"):
        return {"$float": text}
    return value


def write_str(value: str) -> Structure:
    """Write a str; escaped where it holds NUL or half of a surrogate pair, which jsonb refuses."""
    if is_plain(value):
        return value
    return {"$str": value.encode("unicode_escape").decode("ascii")}


def is_plain(text: str) -> bool:
    """Tell whether every database stores this text as it is."""
    if text.isascii():
        return "\0" not in text
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _read_str(text: str) -> str:
    return text.encode("ascii").decode("unicode_escape")


def _write_bytes(value: bytes) -> Structure:
    return base64.b64encode(value).decode("ascii")


def _read_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _write_timedelta(value: timedelta) -> Structure:
    return [value.days, value.seconds, value.microseconds]


def _read_timedelta(parts: list[int]) -> timedelta:
    days, seconds, microseconds = parts
    return timedelta(days, seconds, microseconds)


def _write_clock(value: datetime | time) -> Structure:
    """Write a datetime or time as ISO text, with what that cannot say (zone, name of the offset, fold) beside it.

    A zone of another library than ``zoneinfo`` is kept as the offset that it has at that moment.
    """
    beside: dict[str, Structure] = {"fold": 1} if value.fold else {}
    if isinstance(value.tzinfo, ZoneInfo):
        beside["zone"] = _zone_key(value.tzinfo)
        value = value.replace(tzinfo=None)
    elif value.tzinfo is not None:
        offset = _fixed_offset(value)
        if offset.tzname(None) != timezone(offset.utcoffset(None)).tzname(None):
            beside["name"] = offset.tzname(None)
        value = value.replace(tzinfo=offset)
    return {"at": value.isoformat(), **beside} if beside else value.isoformat()


def _zone_key(zone: ZoneInfo) -> str:
    if zone.key is None:
        raise Unstorable("its ZoneInfo was read from a file and has no key; use ZoneInfo('Area/City')")
    return zone.key


def _fixed_offset(value: datetime | time) -> timezone:
    if type(value.tzinfo) is timezone:
        return value.tzinfo
    offset = value.utcoffset()
    if offset is None:
        raise Unstorable(f"its time zone {value.tzinfo!r} has no offset at that moment; use a zone of 'zoneinfo'")
    return timezone(offset)


def _read_datetime(stored: str | dict[str, Any]) -> datetime:
    if isinstance(stored, str):
        return datetime.fromisoformat(stored)
    return _with_zone(datetime.fromisoformat(stored["at"]), stored)


def _read_time(stored: str | dict[str, Any]) -> time:
    if isinstance(stored, str):
        return time.fromisoformat(stored)
    return _with_zone(time.fromisoformat(stored["at"]), stored)


def _with_zone(value: _Clock, stored: Mapping[str, Any]) -> _Clock:
    zone: tzinfo | None = value.tzinfo
    if "zone" in stored:
        zone = _read_zone(stored["zone"])
    elif "name" in stored and isinstance(zone, timezone):
        zone = timezone(zone.utcoffset(None), stored["name"])
    return value.replace(tzinfo=zone, fold=stored.get("fold", 0))


def _read_zone(key: str) -> ZoneInfo:
    try:
        return ZoneInfo(key)
    except ZoneInfoNotFoundError as error:
        raise ReferencedRecordMissing(
            f"Cannot read a stored time: its time zone '{key}' is not known here. Install the package 'tzdata'."
        ) from error


PLAIN_WRITERS: Mapping[type, Callable[[Any], Structure]] = {
    type(None): lambda value: None,
    bool: bool,
    int: write_int,
    float: write_float,
    str: write_str,
}
SCALAR_FORMS: Mapping[type, ScalarForm] = {
    bytes: ScalarForm(tag="$bytes", write=_write_bytes, read=_read_bytes),
    datetime: ScalarForm(tag="$datetime", write=_write_clock, read=_read_datetime),
    date: ScalarForm(tag="$date", write=date.isoformat, read=date.fromisoformat),
    time: ScalarForm(tag="$time", write=_write_clock, read=_read_time),
    timedelta: ScalarForm(tag="$timedelta", write=_write_timedelta, read=_read_timedelta),
    Decimal: ScalarForm(tag="$decimal", write=str, read=Decimal),
    UUID: ScalarForm(tag="$uuid", write=str, read=UUID),
}
SCALAR_READERS: Mapping[str, Callable[[Any], object]] = {
    "$int": lambda text: int(text, 16),
    "$float": float,
    "$str": _read_str,
    **{form.tag: form.read for form in SCALAR_FORMS.values()},
}
