"""The time limit of a step's job."""

from __future__ import annotations

from types import FrameType
from typing import NoReturn

from rq.timeouts import JobTimeoutException, UnixSignalDeathPenalty

from flask_geneva.errors import StepTimeout


class StepDeathPenalty(UnixSignalDeathPenalty):
    """Ends a job with :class:`StepTimeout`, which ``except Exception`` cannot swallow."""

    def handle_death_penalty(self, signum: int, frame: FrameType | None) -> NoReturn:
        """Raise in the code that runs at this moment."""
        if issubclass(self._exception, JobTimeoutException):
            raise StepTimeout(f"The step ran longer than its limit of {self._timeout} seconds.")
        raise self._exception(f"It took longer than {self._timeout} seconds")
