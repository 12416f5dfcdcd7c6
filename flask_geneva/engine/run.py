"""One job's passage through the engine: which session, since when, and what it met."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from sqlalchemy.orm import Session

from flask_geneva.engine.doubt import Doubt
from flask_geneva.engine.runtime import Runtime
from flask_geneva.records.saving import Row, save


class TimeLimit(Protocol):
    """How long the code of one step may run; its end raises ``StepTimeout`` in that code and nowhere else."""

    @property
    def seconds(self) -> float | None:
        """The limit; None where there is none."""

    def of_step(self) -> AbstractContextManager[object]:
        """The step's own code runs within; each step has its time anew."""

    def suspended(self) -> AbstractContextManager[object]:
        """The engine is at work within a step, in a transaction that must not be torn."""


class NoTimeLimit:
    """What there is where nobody watches: outside of a worker."""

    seconds: float | None = None

    def of_step(self) -> AbstractContextManager[object]:
        """Let the step run."""
        return nullcontext()

    def suspended(self) -> AbstractContextManager[object]:
        """Change nothing."""
        return nullcontext()


@dataclass
class Run:
    """The context of one job.

    ``job_id`` is put on the rows that the job runs straight on with, so that the queue can be asked about them.
    ``ignores_time`` and ``limits`` belong to tests: waits are taken as over, and a resumable step has no limits.
    """

    runtime: Runtime
    session: Session
    job_id: str | None = None
    ignores_time: bool = False
    runs_ahead: bool = True
    ignores_limits: bool = False
    iteration_limit: int | None = None
    is_stopping: Callable[[], bool] = lambda: False
    time_limit: TimeLimit = field(default_factory=NoTimeLimit)
    now: datetime = field(init=False)
    error_to_report: BaseException | None = field(default=None, init=False)
    last_error: BaseException | None = field(default=None, init=False)
    # The transaction holds the ending of another step already.
    is_ahead: bool = field(default=False, init=False)
    # What the database refused when the execution was prepared, which is prepared again and ends by that.
    obstacle: Exception | None = field(default=None, init=False)
    # The commit whose answer has not come.
    doubt: Doubt | None = field(default=None, init=False)
    _started: float = field(default_factory=time.monotonic, init=False)
    _unsaved: list[Row] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.now = self.runtime.now()

    def begin(self) -> None:
        """Take the present moment as the one that the next transaction writes, and leave what the last one lost."""
        self.now = self.runtime.now()
        self._unsaved = []

    def save_soon(self, row: Row) -> None:
        """Save the row together with the next one, in one round trip where the database can."""
        self._unsaved.append(row)

    def save(self, *rows: Row | None) -> None:
        """Save what is to be saved soon, and then these rows."""
        unsaved, self._unsaved = self._unsaved, []
        save(self.session, *unsaved, *rows, now=self.now)

    @property
    def has_time_left(self) -> bool:
        """Whether another step may be started in this job."""
        budget = self.runtime.settings.run_ahead.total_seconds()
        return self.runs_ahead and time.monotonic() - self._started < budget and not self.is_stopping()
