"""The time limit of a step: an alarm that rings in the step's own code, and nowhere else."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from flask_geneva.engine.run import NoTimeLimit, TimeLimit
from flask_geneva.errors import StepTimeout


def time_limit(seconds: float | None) -> TimeLimit:
    """Return the limit of the steps of one job; where no alarm can ring, in a thread, there is none."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "SIGALRM"):
        return NoTimeLimit()
    # RQ's own alarm for the job would ring anywhere, and tear a transaction of the engine.
    signal.setitimer(signal.ITIMER_REAL, 0)
    return NoTimeLimit() if seconds is None or seconds <= 0 else AlarmTimeLimit(seconds)


class AlarmTimeLimit:
    """Raises :class:`StepTimeout`, which ``except Exception`` cannot swallow, when a step has run for so long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._may_ring = False
        self._is_over = False

    @contextmanager
    def of_step(self) -> Iterator[None]:
        """Watch the step's own code."""
        before = signal.signal(signal.SIGALRM, self._ring)
        self._is_over = False
        self._may_ring = True
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        try:
            yield
        finally:
            self._may_ring = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            # Not known where it was not set from Python.
            signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Hold the alarm back until the engine's work within the step is done."""
        could_ring, self._may_ring = self._may_ring, False
        try:
            yield
        finally:
            self._may_ring = could_ring
        if could_ring and self._is_over:
            raise self._error()

    def _ring(self, number: int, frame: FrameType | None) -> None:
        self._is_over = True
        if self._may_ring:
            raise self._error()

    def _error(self) -> StepTimeout:
        return StepTimeout(f"The step ran longer than its limit of {self.seconds:g} seconds.")
