"""How far a resumable step is, for people: iterations, of how many, and how fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
    """What a chain of executions has done, and the rate of the newest one, in iterations per second.

    An iteration is an item of a loop, or a checkpoint that is made by hand.
    """

    done: int
    total: int | None
    rate: float | None

    @property
    def ratio(self) -> float | None:
        """How much of the total is done, from 0 to 1; None where the step gave no total."""
        return min(self.done / self.total, 1.0) if self.total else None

    def __str__(self) -> str:
        """In words: ``300 of 1,000 iterations, 30%, 12 per second``."""
        noun = "iteration" if (self.total or self.done) == 1 else "iterations"
        parts = [f"{self.done:,} of {self.total:,} {noun}" if self.total else f"{self.done:,} {noun}"]
        if self.ratio is not None:
            parts.append(f"{self.ratio:.0%}")
        if self.rate:
            parts.append(_in_words(self.rate))
        return ", ".join(parts)


def progress_of(attempt: Any, predecessor: Any | None = None) -> Progress:
    """Say how far an execution is; its rate is of what it has done more than the one that it goes on from."""
    done = attempt.items_done or 0
    before = 0 if predecessor is None else predecessor.items_done or 0
    # After a rewind it counts from zero again.
    own = done - before if done >= before else done
    return Progress(done, attempt.iteration_total, _rate(attempt, own))


def _rate(attempt: Any, iterations: int) -> float | None:
    # Each checkpoint stamps the row.
    until = attempt.finished_at or attempt.updated_at
    if attempt.started_at is None or not iterations:
        return None
    seconds = (until - attempt.started_at).total_seconds()
    return iterations / seconds if seconds > 0 else None


def _in_words(rate: float) -> str:
    per_unit = [(rate * seconds, unit) for unit, seconds in (("second", 1), ("minute", 60), ("hour", 3600))]
    number, unit = next((each for each in per_unit if each[0] >= 1), per_unit[-1])
    return f"{number:,.0f} per {unit}" if number >= 10 else f"{number:.1f} per {unit}"
