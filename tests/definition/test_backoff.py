"""The wait before a reattempt: fixed, by a strategy with jitter, or by the user's own function."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flask_geneva.definition.backoff import read_backoff, wait_before
from flask_geneva.definition.durations import LONGEST
from tests.definition.plain import mistake


def seconds(backoff: Any, attempt: int, fraction: float = 0.0) -> float:
    wait = wait_before(backoff, attempt, random_fraction=lambda: fraction)
    assert wait is not None
    return wait.total_seconds()


def test_a_fixed_wait_stays_the_same() -> None:
    # BKO-01
    backoff = read_backoff(30, what="wait")

    assert [seconds(backoff, attempt) for attempt in (1, 2, 50)] == [30, 30, 30]


def test_a_callable_is_asked_with_the_number_of_the_attempt() -> None:
    # BKO-02
    backoff = read_backoff(lambda attempt: attempt * 10, what="wait")

    assert [seconds(backoff, attempt) for attempt in (1, 2)] == [10, 20]


def test_a_polynomial_wait_grows_with_the_fourth_power() -> None:
    # BKO-03
    assert [seconds("polynomially_longer", attempt) for attempt in (1, 2, 3)] == [3, 18, 83]


def test_an_exponential_wait_doubles_up_to_an_hour() -> None:
    waits = [seconds("exponential", attempt) for attempt in (1, 2, 3, 11, 12, 13, 10**6)]

    assert waits == [2, 4, 8, 2048, 3600, 3600, 3600]


@pytest.mark.parametrize("strategy", ["polynomially_longer", "exponential"])
def test_the_strategies_go_by_their_names(strategy: str) -> None:
    # BKO-05
    assert read_backoff(strategy, what="wait") == strategy


def test_jitter_adds_up_to_fifteen_percent() -> None:
    # BKO-04
    assert seconds("polynomially_longer", 3, fraction=1.0) == pytest.approx(83 + 0.15 * 81)
    assert seconds("exponential", 3, fraction=1.0) == pytest.approx(8 * 1.15)


def test_jitter_is_drawn_at_random() -> None:
    # BKO-04
    waits = {wait_before("polynomially_longer", 3) for _ in range(20)}

    assert len(waits) > 1
    assert all(wait and 83 <= wait.total_seconds() <= 95.15 for wait in waits)


def test_a_wait_never_leaves_the_calendar() -> None:
    assert wait_before("polynomially_longer", 10**100) == LONGEST


def test_none_is_no_wait() -> None:
    # BKO-06
    assert wait_before(read_backoff(None, what="wait"), 1) is None
    assert wait_before(lambda attempt: None, 1) is None


@pytest.mark.parametrize("wait", ["linear", "", -1, True, float("nan"), [], lambda: 3])
def test_an_unknown_kind_of_wait_is_refused(wait: Any) -> None:
    # BKO-05
    with mistake("policy: wait"):
        read_backoff(wait, what="policy: wait")


@pytest.mark.parametrize("answer", [-1, float("nan"), "soon", timedelta(days=-1), True])
def test_a_callable_that_answers_no_duration_is_an_error_when_it_is_asked(answer: Any) -> None:
    with mistake("attempt 3", "non-negative", repr(answer)):
        wait_before(lambda attempt: answer, 3)


def test_what_a_callable_raises_propagates() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_before(lambda attempt: 1 // 0, 1)
