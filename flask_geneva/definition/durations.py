"""Durations as users give them: a timedelta, or a non-negative number of seconds."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from numbers import Real
from typing import Literal, TypeAlias, overload

from flask_geneva.errors import StepConfigurationError

Duration: TypeAlias = timedelta | int | float

LONGEST = timedelta(days=365_000)  # a due time must stay a valid datetime


@overload
def read_duration(value: object, *, what: str, allow_none: Literal[False]) -> timedelta: ...
@overload
def read_duration(value: object, *, what: str, allow_none: bool = True) -> timedelta | None: ...
def read_duration(value: object, *, what: str, allow_none: bool = True) -> timedelta | None:
    """Return ``value`` as a timedelta, or raise a ``StepConfigurationError`` that begins with ``what``."""
    if value is None and allow_none:
        return None
    if isinstance(value, timedelta):
        return _within_bounds(value, value, what)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise StepConfigurationError(f"{what} must be {_FORMS}, not {value!r}.")
    return _within_bounds(_from_seconds(value, what), value, what)


def read_positive_duration(value: object, *, what: str) -> timedelta | None:
    """Like :func:`read_duration`, and refuse zero."""
    duration = read_duration(value, what=what)
    if duration is not None and not duration:
        raise StepConfigurationError(f"{what} must be a positive duration, not {value!r}. Leave it out for no limit.")
    return duration


_FORMS = "a timedelta or a non-negative number of seconds"


def _from_seconds(value: Real | Decimal, what: str) -> timedelta:
    try:
        seconds = float(value)
        if math.isnan(seconds) or math.isinf(seconds):
            raise StepConfigurationError(f"{what} must be {_FORMS}, not {value!r}.")
        if seconds < 0:
            return -timedelta.resolution
        return timedelta(seconds=seconds)
    except OverflowError as error:
        raise StepConfigurationError(_too_long(what)) from error


def _within_bounds(duration: timedelta, given: object, what: str) -> timedelta:
    if duration < timedelta(0):
        raise StepConfigurationError(f"{what} must be {_FORMS}; {given!r} is negative.")
    if duration > LONGEST:
        raise StepConfigurationError(_too_long(what))
    return duration


def _too_long(what: str) -> str:
    # Without the value: Python refuses to write out an integer of thousands of digits.
    return f"{what} is longer than {LONGEST.days} days. Give a shorter duration."
