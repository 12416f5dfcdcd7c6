"""What a section of housekeeping hands to the run: one thing to be done in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select
from sqlalchemy.orm import Session

from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import Liveness, Runtime

Counts = Mapping[str, int]
NOTHING: Counts = {}


@dataclass(frozen=True, kw_only=True)
class Task:
    """Work on one row or one batch; it returns how much of what it did, by the fields of the summary.

    Where the work on a batch fails, its ``parts`` are tried one by one.
    """

    subject: str
    work: Callable[[], Counts]
    parts: Callable[[], Iterator[Task]] = lambda: iter(())


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One run's view: the application, the session that it works in, and the moment at which it began."""

    runtime: Runtime
    session: Session
    now: datetime
    overdue_after: timedelta

    @property
    def batch_size(self) -> int:
        """How many rows to look at in one go."""
        return self.runtime.settings.housekeeping_batch_size

    def read(self, statement: Select[*tuple[Any, ...]]) -> Sequence[Any]:
        """Read rows, and leave no transaction open behind."""
        rows = self.session.connection().execute(statement).all()
        self.session.rollback()
        return rows

    def liveness(self, job_ids: Sequence[str | None]) -> dict[str | None, Liveness]:
        """Ask the queue about jobs; an application that sends none has none that could be alive."""
        known = [job_id for job_id in job_ids if job_id is not None]
        answers: dict[str | None, Liveness] = dict.fromkeys(job_ids, Liveness.UNKNOWN)
        if known and self.runtime.settings.enqueue:
            answers.update(self.runtime.queue.liveness(known))
        return answers

    def run(self) -> Run:
        """Return the context in which the engine ends or schedules something now."""
        return Run(self.runtime, self.session, runs_ahead=False)
