"""One attempt at a step while a worker has it in hand, and the object that the user's code sees as ``self``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, NoReturn

from sqlalchemy import event
from sqlalchemy.orm import Session

from flask_geneva.definition.flow_control import FlowControl
from flask_geneva.definition.steps import StepDefinition
from flask_geneva.definition.verdicts import Reattempted, Suspended
from flask_geneva.engine.runtime import Runtime
from flask_geneva.errors import InvalidStateError
from flask_geneva.logs import StepLogger, logger_for
from flask_geneva.records.instances import instance_of
from flask_geneva.records.signal import Signal
from flask_geneva.records.step_execution import ExecutionRow, StepExecution
from flask_geneva.records.workflow_row import WorkflowRow

_RUNNING = "geneva_attempt"
# The reason of an attempt that ended by the database's doing.
TRANSIENT = "transient_db_error"


@dataclass(frozen=True, kw_only=True)
class OutgoingSignal:
    """A signal that the step has sent and that is yet to get its key and to meet its workflow."""

    workflow_id: int
    signal_id: int
    name: str
    idempotency_key: str | None


@dataclass
class Attempt:
    """An execution with all that belongs to it."""

    runtime: Runtime
    session: Session
    workflow: WorkflowRow
    execution: ExecutionRow
    workflow_class: type[Any]
    step: StepDefinition
    iteration: Any = field(default=None)
    outgoing: list[OutgoingSignal] = field(default_factory=list)
    # How long the step's code ran.
    seconds: float = 0.0

    @cached_property
    def logger(self) -> StepLogger:
        """A logger whose lines name the workflow, the hero, the execution and the step."""
        return logger_for(
            workflow_type=self.workflow_class.definition.name,
            workflow_id=self.workflow.id,
            hero_type=self.workflow.hero_type,
            hero_id=self.workflow.hero_id,
            execution_id=self.execution.id,
            step_name=self.execution.step_name,
        )

    @property
    def facts(self) -> dict[str, Any]:
        """What every event about this attempt says."""
        return {
            "workflow_id": self.workflow.id,
            "workflow_class": self.workflow_class.definition.name,
            "execution_id": self.execution.id,
            "step_name": self.execution.step_name,
            "resumable": self.step.resumable,
        }

    @property
    def has_progressed(self) -> bool:
        """Whether a resumable step has come further than where it began."""
        return self.iteration is not None and bool(self.iteration.has_progressed)

    def suspend(self, wait: timedelta | None) -> NoReturn:
        """End a resumable step here; a hook may do so before it has begun."""
        if self.iteration is not None:
            self.iteration.suspend(wait)
        raise FlowControl(Suspended(wait=wait, progressed=False))

    def received_signal(self) -> Signal | None:
        """Read the signal that the attempt handles."""
        if self.execution.signal_id is None:
            return None
        return self.session.get(Signal, self.execution.signal_id)

    def step_execution(self) -> StepExecution:
        """Return the mapped object of the execution."""
        return instance_of(self.session, StepExecution, self.execution)

    @contextmanager
    def bound(self) -> Iterator[Any]:
        """Yield a fresh workflow object that knows this attempt, so that its verbs end the step. May be nested.

        :raises InvalidStateError: where the user's code has begun another session in the place of the attempt's.
        """
        workflow = instance_of(self.session, self.workflow_class, self.workflow)
        outer = workflow._attempt
        workflow._attempt = self.session.info[_RUNNING] = self
        try:
            yield workflow
            self.keep_session()
        except FlowControl:
            self.keep_session()
            raise
        except BaseException:
            self.runtime.reclaim(self.session)
            raise
        finally:
            workflow._attempt = self.session.info[_RUNNING] = outer

    def keep_session(self) -> None:
        """See to it that ``db.session`` is the session whose commit ends the attempt.

        :raises InvalidStateError: where it was removed and another begun, whose writes could not be committed with it.
        """
        if self.runtime.reclaim(self.session):
            raise InvalidStateError(
                f"Step '{self.execution.step_name}' of {self.workflow.type} #{self.workflow.id} called "
                f"db.session.remove(): what it wrote afterwards cannot be committed together with its end, and was "
                f"rolled back. Leave the call out, or use db.session.rollback() or close() instead."
            )


def listen(sessions: Any) -> None:
    """Let an attempt know of commits that its step makes by itself; a second call changes nothing."""
    if not event.contains(sessions, "after_commit", _after_commit):
        event.listen(sessions, "after_commit", _after_commit)


def run_again(error: Exception) -> Reattempted:
    """The database asks for patience; the step did nothing wrong, so that its attempt does not count."""
    return Reattempted(reason=TRANSIENT, error=error)


def running_in(session: Session) -> Attempt | None:
    """Return the attempt whose step runs in this session at the moment."""
    attempt: Attempt | None = session.info.get(_RUNNING)
    return attempt


def _after_commit(session: Session) -> None:
    attempt = running_in(session)
    if attempt is not None and attempt.iteration is not None and session.get_nested_transaction() is None:
        attempt.iteration.note_commit()
