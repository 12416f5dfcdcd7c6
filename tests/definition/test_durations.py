"""Durations are timedeltas or non-negative numbers of seconds; anything else is refused with what it was for."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_geneva.definition.durations import LONGEST, read_duration, read_positive_duration
from tests.definition.plain import mistake


@pytest.mark.parametrize("value", [90, 90.0, Decimal(90), Fraction(90), timedelta(minutes=1, seconds=30)])
def test_a_number_is_so_many_seconds(value: Any) -> None:
    # DEF-11, B-22
    assert read_duration(value, what="wait") == timedelta(seconds=90)


def test_none_is_no_duration_where_it_is_allowed() -> None:
    assert read_duration(None, what="wait") is None
    with mistake("wait", "None"):
        read_duration(None, what="wait", allow_none=False)


@pytest.mark.parametrize(
    "value", ["30", True, False, float("nan"), float("inf"), -float("inf"), Decimal("NaN"), [], 3j]
)
def test_what_is_no_duration_is_refused(value: Any) -> None:
    # DEF-12, DEF-13
    with mistake("wait of ship", "a timedelta or a non-negative number of seconds", repr(value)):
        read_duration(value, what="wait of ship")


@pytest.mark.parametrize("value", [-1, -1e-9, timedelta(microseconds=-1), Decimal("-0.1")])
def test_a_negative_duration_is_refused(value: Any) -> None:
    # DEF-12
    with mistake("wait", "non-negative"):
        read_duration(value, what="wait")


@pytest.mark.parametrize("value", [10**400, 1e300, 1e15, timedelta.max, LONGEST + timedelta(seconds=1)])
def test_a_duration_beyond_every_calendar_is_refused(value: Any) -> None:
    with mistake("wait", "longer than 365000 days"):
        read_duration(value, what="wait")


def test_a_number_too_long_to_be_written_out_is_refused_too() -> None:
    with mistake("wait", "longer than 365000 days"):
        read_duration(10**5000, what="wait")


@given(st.floats(min_value=0, max_value=LONGEST.total_seconds()))
def test_every_number_of_seconds_within_bounds_is_a_duration(seconds: float) -> None:
    assert read_duration(seconds, what="wait") == timedelta(seconds=seconds)


def test_a_positive_duration_is_not_zero() -> None:
    # DEF-41
    assert read_positive_duration(1, what="max_runtime") == timedelta(seconds=1)
    with mistake("max_runtime", "positive duration"):
        read_positive_duration(0, what="max_runtime")
