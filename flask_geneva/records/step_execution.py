"""One attempt at a step: the row as the engine knows it, and the class that applications read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_
from sqlalchemy.orm import Mapped, foreign, object_session, relationship, remote

from flask_geneva.records.base import Base, models_known_to
from flask_geneva.records.details import Details
from flask_geneva.records.saving import Row
from flask_geneva.records.tables import signals, step_executions, workflows
from flask_geneva.records.values import decode
from flask_geneva.states import OPEN_STEP_STATES

if TYPE_CHECKING:
    from datetime import datetime

    from flask_geneva.records.signal import Signal
    from flask_geneva.states import Outcome, StepState
    from flask_geneva.workflow import Workflow


class ExecutionRow(Row):
    """A step execution, free of any session."""

    table = step_executions

    if TYPE_CHECKING:
        id: int
        workflow_id: int
        step_name: str
        state: StepState
        outcome: Outcome | None
        scheduled_for: datetime
        started_at: datetime | None
        waiting_since: datetime | None
        deadline_at: datetime | None
        job_id: str | None
        continues_from_id: int | None
        signal_id: int | None
        cursor_value: Any
        completed_iterations: int
        iteration_total: int | None
        items_done: int | None
        error_reattempts: int
        death_reattempts: int
        stalled_runs: int
        details: dict[str, Any] | None

    @property
    def deadline_passed(self) -> bool:
        """Whether the step runs without the signal that did not come in time; so does each attempt after it."""
        return bool((self.details or {}).get("deadline_passed"))

    def note(self, **entries: Any) -> None:
        """Add entries to the details."""
        self.change(details={**(self.details or {}), **entries})


class StepExecution(Base):
    """One attempt at a step.

    Its ``id`` is an idempotency key for what this attempt does outside the database; a key that is to stay the same
    over attempts is made of the workflow's id and the step's name.
    """

    __table__ = step_executions
    __mapper_args__ = {  # noqa: RUF012 (SQLAlchemy reads it as it is)
        "properties": {"stored_details": step_executions.c.details, "stored_cursor": step_executions.c.cursor_value},
    }

    if TYPE_CHECKING:
        id: Mapped[int]
        workflow_id: Mapped[int]
        step_name: Mapped[str]
        state: Mapped[StepState]
        outcome: Mapped[Outcome | None]
        scheduled_for: Mapped[datetime]
        started_at: Mapped[datetime | None]
        finished_at: Mapped[datetime | None]
        completed_at: Mapped[datetime | None]
        failed_at: Mapped[datetime | None]
        canceled_at: Mapped[datetime | None]
        skipped_at: Mapped[datetime | None]
        waiting_since: Mapped[datetime | None]
        deadline_at: Mapped[datetime | None]
        error_class_name: Mapped[str | None]
        error_message: Mapped[str | None]
        error_backtrace: Mapped[str | None]
        job_id: Mapped[str | None]
        continues_from_id: Mapped[int | None]
        signal_id: Mapped[int | None]
        completed_iterations: Mapped[int]
        iteration_total: Mapped[int | None]
        items_done: Mapped[int | None]
        error_reattempts: Mapped[int]
        death_reattempts: Mapped[int]
        stalled_runs: Mapped[int]
        created_at: Mapped[datetime]
        updated_at: Mapped[datetime]
        stored_details: Mapped[Any]
        stored_cursor: Mapped[Any]
        workflow: Mapped[Workflow[Any]]

    workflow = relationship(
        "Workflow",
        primaryjoin=step_executions.c.workflow_id == workflows.c.id,
        foreign_keys=[step_executions.c.workflow_id],
        back_populates="step_executions",
    )
    signal: Mapped[Signal | None] = relationship(
        "Signal",
        primaryjoin=step_executions.c.signal_id == signals.c.id,
        foreign_keys=[step_executions.c.signal_id],
        viewonly=True,
    )
    continues_from: Mapped[StepExecution | None] = relationship(
        "StepExecution",
        primaryjoin=lambda: step_executions.c.continues_from_id == StepExecution.id,
        foreign_keys=[step_executions.c.continues_from_id],
        remote_side=[step_executions.c.id],
        viewonly=True,
    )
    successor: Mapped[StepExecution | None] = relationship(
        "StepExecution",
        # Of the same workflow, by whose executions there is an index.
        primaryjoin=lambda: and_(
            foreign(remote(step_executions.c.continues_from_id)) == step_executions.c.id,
            foreign(remote(step_executions.c.workflow_id)) == step_executions.c.workflow_id,
        ),
        uselist=False,
        viewonly=True,
    )

    @property
    def details(self) -> Details:
        """What was noted about this attempt, as a dict: the reason of a reattempt, the error that it met."""
        return Details(self)

    @property
    def cursor_value(self) -> Any:
        """The cursor of a resumable step as it was set, None before the first checkpoint."""
        session = object_session(self)
        return decode(self.stored_cursor, session, models_known_to(session))

    @property
    def is_open(self) -> bool:
        """Scheduled, waiting or in progress."""
        return self.state in OPEN_STEP_STATES

    @property
    def resumed(self) -> bool:
        """Goes on from an earlier execution of the same step."""
        return self.continues_from_id is not None

    def __repr__(self) -> str:
        return f"<StepExecution #{self.id} {self.step_name} {self.state}>"
