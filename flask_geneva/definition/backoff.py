"""How long to wait before the next attempt: a fixed wait, a named strategy, or the user's own function."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Literal, TypeAlias

from flask_geneva.definition.durations import LONGEST, Duration, read_duration
from flask_geneva.definition.options import listing
from flask_geneva.definition.signatures import objection_to
from flask_geneva.errors import StepConfigurationError

Strategy: TypeAlias = Literal["polynomially_longer", "exponential"]
WaitFunction: TypeAlias = Callable[[int], Duration | None]
Backoff: TypeAlias = timedelta | str | Callable[[int], object] | None

JITTER = 0.15
_LONGEST_EXPONENTIAL = 3600


def read_backoff(value: object, *, what: str) -> Backoff:
    """Check the ``wait`` of an exception policy; numbers become timedeltas."""
    if isinstance(value, str):
        return _read_strategy(value, what)
    if callable(value):
        objection = objection_to(value, "attempt")
        if objection:
            raise StepConfigurationError(f"{what} {objection}.")
        return value
    return read_duration(value, what=what)


def wait_before(
    backoff: Backoff, attempt: int, *, random_fraction: Callable[[], float] = random.random
) -> timedelta | None:
    """Return the wait before reattempt number ``attempt``, counted from 1; None means at once.

    Whatever the user's own function raises propagates; a value of it that is no duration is a
    ``StepConfigurationError``.
    """
    if backoff is None or isinstance(backoff, timedelta):
        return backoff
    if callable(backoff):
        return read_duration(backoff(attempt), what=f"The wait before attempt {attempt}, as returned by {backoff!r},")
    base, fixed = _STRATEGIES[backoff](attempt)
    return min(timedelta(seconds=base * (1 + JITTER * random_fraction()) + fixed), LONGEST)


def _polynomially_longer(attempt: int) -> tuple[float, float]:
    return min(attempt**4, _LONGEST_BASE), 2


def _exponential(attempt: int) -> tuple[float, float]:
    return 2**attempt if attempt < _LONGEST_EXPONENTIAL.bit_length() else _LONGEST_EXPONENTIAL, 0


_LONGEST_BASE = int(LONGEST.total_seconds())
_STRATEGIES = {"polynomially_longer": _polynomially_longer, "exponential": _exponential}


def _read_strategy(value: str, what: str) -> str:
    if value in _STRATEGIES:
        return value
    raise StepConfigurationError(
        f"{what} must be a timedelta, a non-negative number of seconds, one of {listing(_STRATEGIES)}, or a callable "
        f"that takes the attempt number, not {value!r}."
    )
