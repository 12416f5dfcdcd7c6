"""Waits for a condition; the only place in the tests that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def eventually(
    condition: Callable[[], Found],
    *,
    within: float = 20.0,
    every: float = 0.02,
    otherwise: Callable[[], str] | None = None,
) -> Found:
    """Ask again until the answer is truthy, and return it; ``otherwise`` describes what there was instead."""
    give_up = time.monotonic() + within
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > give_up:
            stands = f": {otherwise()}" if otherwise else ""
            raise AssertionError(f"{condition} did not come true within {within:.0f} seconds{stands}")
        time.sleep(every)
