"""The class that applications inherit from: the row mapped, the class body read, the verbs named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from inspect import get_annotations as inspect_annotations
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar, cast

from sqlalchemy import ColumnElement, and_, inspect, select, type_coerce
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, Mapper, Session, object_session, relationship

from flask_geneva.definition.durations import read_duration
from flask_geneva.definition.flow_control import FlowControl
from flask_geneva.definition.verdicts import Canceled, Finished, Paused, Reattempted, Skipped, Verdict
from flask_geneva.definition.workflow_definition import (
    WorkflowDefinition,
    named_apart,
    read_definition,
    refuse_foreign_rows,
)
from flask_geneva.engine import creation, removed_steps, sending, verbs
from flask_geneva.engine.attempt import Attempt
from flask_geneva.engine.explanation import explain
from flask_geneva.engine.runtime import Runtime, current_runtime
from flask_geneva.engine.sessions import adopted
from flask_geneva.errors import InvalidStateError
from flask_geneva.logs import StepLogger, logger_for
from flask_geneva.records import heroes
from flask_geneva.records.base import Base
from flask_geneva.records.class_names import Discriminator, stored_names
from flask_geneva.records.columns import refuse_columns
from flask_geneva.records.details import Details
from flask_geneva.records.signal import Signal
from flask_geneva.records.step_execution import StepExecution
from flask_geneva.records.tables import signals, step_executions, workflows
from flask_geneva.states import ONGOING_WORKFLOW_STATES

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from flask_geneva.definition.step_sequence import StepSequence
    from flask_geneva.states import PendingRequest, WorkflowState

Hero = TypeVar("Hero")

# The payload of a signal that was sent without one; an explicit None is a payload, too.
NO_PAYLOAD: Any = {}


def _mapper() -> Mapper[Any]:
    return inspect(Workflow)


class Workflow(Base, Generic[Hero]):
    """A process of steps that belongs to one record of the application, its hero.

    Inherit from it, naming the hero's class, and list the steps in the class body. All verbs work in the caller's
    ``db.session``: they lock the workflow's row, flush, and take effect when the caller commits; a rollback undoes
    them and sends nothing to the queue.
    """

    __table__ = workflows
    __mapper_args__ = {  # noqa: RUF012 (SQLAlchemy reads it as it is)
        "polymorphic_on": type_coerce(workflows.c.type, Discriminator(_mapper)),
        "polymorphic_identity": "Workflow",
        "properties": {"stored_details": workflows.c.details},
    }

    may_proceed_without_hero: ClassVar[bool] = False
    job_options: ClassVar[Mapping[str, Any]] = {}

    # The attempt that runs this very object; None everywhere but inside a step.
    _attempt: Attempt | None = None

    # Only for type checkers: SQLAlchemy would take each annotation for a column.
    if TYPE_CHECKING:
        definition: ClassVar[WorkflowDefinition]
        steps: ClassVar[StepSequence]
        id: Mapped[int]
        type: Mapped[str]
        hero_type: Mapped[str | None]
        hero_id: Mapped[str | None]
        state: Mapped[WorkflowState]
        current_step_name: Mapped[str | None]
        next_step_name: Mapped[str | None]
        pending_request: Mapped[PendingRequest | None]
        allow_multiple: Mapped[bool]
        started_at: Mapped[datetime | None]
        transitioned_at: Mapped[datetime | None]
        created_at: Mapped[datetime]
        updated_at: Mapped[datetime]
        stored_details: Mapped[Any]

    step_executions: Mapped[list[StepExecution]] = relationship(
        "StepExecution",
        primaryjoin=step_executions.c.workflow_id == workflows.c.id,
        foreign_keys=[step_executions.c.workflow_id],
        back_populates="workflow",
        order_by=step_executions.c.id,
        cascade="all, delete-orphan",
    )
    signals: Mapped[list[Signal]] = relationship(
        "Signal",
        primaryjoin=signals.c.workflow_id == workflows.c.id,
        foreign_keys=[signals.c.workflow_id],
        back_populates="workflow",
        order_by="Signal.id",
        cascade="all, delete-orphan",
    )

    def __init_subclass__(cls, **options: Any) -> None:
        refuse_columns(cls)
        definition = named_apart(cls, read_definition(cls, reserved=_RESERVED), _class_called)
        refuse_foreign_rows(cls, definition, (mapper.class_ for mapper in _mapper().self_and_descendants))
        cls.__mapper_args__ = {"polymorphic_identity": definition.name}
        # A workflow class has no columns of its own: its annotations are its own affair.
        annotations = inspect_annotations(cls)
        cls.__annotations__ = {}
        super().__init_subclass__(**options)
        cls.__annotations__ = annotations
        cls.definition = definition
        cls.steps = definition.steps

    # -- finding and creating

    @classmethod
    def create(
        cls, hero: Hero | None = None, allow_multiple: bool = False, job_options: Mapping[str, Any] | None = None
    ) -> Self:
        """Insert a workflow and its first step execution, and return it; flush.

        A second call for the same hero raises while the first workflow is ongoing. Works for hundreds in a transaction.

        :raises WorkflowAlreadyOngoing: with the other one as ``workflow``; the caller's transaction stays usable.
        :raises HeroMissing: without a hero, where the class needs one.
        """
        runtime = current_runtime()
        created = creation.create(
            runtime, runtime.session(), cls, hero, allow_multiple=allow_multiple, job_options=job_options
        )
        return cast("Self", created)

    @classmethod
    def create_many(
        cls, heroes: Iterable[Hero], allow_multiple: bool = False, job_options: Mapping[str, Any] | None = None
    ) -> list[Self]:
        """Insert a workflow and its first step execution for each hero, all or none, and return them; flush.

        Each is as ``create`` makes it; a second call raises. On PostgreSQL and MariaDB ten thousand take some twenty
        statements; on every database their jobs are sent in one round trip.

        :raises WorkflowAlreadyOngoing: for a hero that has one or is named twice; the transaction stays usable.
        :raises HeroMissing: for a hero that is None, where the class needs one.
        """
        runtime = current_runtime()
        return creation.create_many(
            runtime, runtime.session(), cls, list(heroes), allow_multiple=allow_multiple, job_options=job_options
        )

    @classmethod
    def get_or_create(cls, hero: Hero | None = None, job_options: Mapping[str, Any] | None = None) -> tuple[Self, bool]:
        """Return the ongoing workflow of this hero and False, or create one and return it and True; flush.

        Right under a race: two callers at once get the same workflow.
        """
        runtime = current_runtime()
        return creation.get_or_create(runtime, runtime.session(), cls, hero, job_options=job_options)

    @classmethod
    def ongoing_for(cls, hero: Hero) -> Self | None:
        """Return the newest ongoing workflow of this class or a subclass for the hero, or None. Reads only."""
        statement = select(cls).where(cls.hero_is(hero), cls.is_ongoing).order_by(cls.id.desc()).limit(1)
        return current_runtime().session().execute(statement).scalar_one_or_none()

    @classmethod
    def hero_is(cls, hero: Hero) -> ColumnElement[bool]:
        """Return the SQL condition that a workflow belongs to the hero."""
        hero_type, hero_id = heroes.reference(hero, current_runtime().session())
        return and_(cls.hero_type == hero_type, cls.hero_id == hero_id)

    @hybrid_property
    def is_ongoing(self) -> bool:
        """Whether the workflow is neither finished nor canceled; on the class, the SQL condition."""
        return self.state in ONGOING_WORKFLOW_STATES

    @is_ongoing.inplace.expression
    @classmethod
    def _is_ongoing(cls) -> ColumnElement[bool]:
        return cls.state.in_(ONGOING_WORKFLOW_STATES)

    @classmethod
    def removed_steps_in_flight(cls) -> dict[str, int]:
        """Count, for each removed step, the ongoing workflows that still stand at it. Reads only."""
        gravestones = [step.name for step in cls.steps.removed]
        return removed_steps.in_flight(current_runtime().session(), stored_names(inspect(cls)), gravestones)

    # -- verbs

    def pause(self) -> None:
        """Stop before the next step, until ``resume()``; in a step, end it here and run it again on resume.

        A performing workflow stops when the step in hand has ended; a second call changes nothing.

        :raises InvalidStateError: when it is paused, finished or canceled.
        """
        self._end_step(Paused())
        verbs.pause(*self._place())

    def resume(self) -> StepExecution | None:
        """Let a paused workflow go on from where it stands, or withdraw a pause that has not taken effect.

        Return the execution that runs next; None where none does: the workflow has ended, or a pause was withdrawn.

        :raises InvalidStateError: when it is not paused.
        :raises StepNotDefinedError: when its step is gone; it stays paused.
        """
        return verbs.resume(*self._place())

    def resume_at(self, step_name: str) -> StepExecution:
        """Let a paused workflow go on from the named step, at once; earlier steps too can be named.

        Return the execution that runs next.

        :raises InvalidStateError: when it is not paused.
        :raises StepNotDefinedError: when there is no such step, or it was removed.
        """
        return verbs.resume_at(*self._place(), step_name)

    def skip(self) -> None:
        """Pass over the step that the workflow stands at; in a step, end it here as skipped.

        :raises InvalidStateError: when it is performing, finished or canceled.
        :raises StepNotDefinedError: when the step is gone, so that nobody knows what comes next.
        """
        self._end_step(Skipped())
        verbs.skip(*self._place())

    def cancel(self) -> None:
        """End the workflow; in a step, at once. A performing workflow ends when the step in hand has.

        :raises InvalidStateError: when it is finished or canceled.
        """
        self._end_step(Canceled())
        verbs.cancel(*self._place())

    def signal(self, name: str, payload: Any = NO_PAYLOAD, idempotency_key: str | None = None) -> Signal:
        """Deliver an event, and wake the step that waits for it; flush.

        A second call with the same name and key returns the first signal with ``duplicate_delivery`` true and does
        nothing else. Without a payload the payload is an empty dict.

        :raises WorkflowNotOngoing: when the workflow is finished or canceled and the signal is not known already.
        :raises SignalPayloadTooLarge: above ``GENEVA_MAX_SIGNAL_PAYLOAD_SIZE``.
        :raises PayloadNotSerializable: for a value that cannot be stored.
        """
        runtime, session, _ = self._place()
        delivered = sending.deliver(runtime, session, self, name, payload, idempotency_key)
        if self in session:
            session.expire(self, ["step_executions", "signals"])
        return delivered

    def reattempt(self, wait: timedelta | float | None = None, rewind: bool = False) -> NoReturn:
        """End the step here and try it again, after ``wait``; ``rewind`` lets a resumable step start over.

        :raises InvalidStateError: outside a step.
        """
        duration = read_duration(wait, what="reattempt(wait=...)")
        self._only_in_a_step("reattempt")
        raise FlowControl(Reattempted(wait=duration, rewind=rewind))

    def finish(self) -> NoReturn:
        """End the step and the workflow here; the remaining steps do not run.

        :raises InvalidStateError: outside a step.
        """
        self._only_in_a_step("finish")
        raise FlowControl(Finished())

    def suspend(self, wait: timedelta | float | None = None) -> NoReturn:
        """Stop a resumable step here; a new execution goes on behind the last item that is done, after ``wait``.

        What the step wrote since then is kept: call it before the work on an item, not in the midst of it.

        :raises InvalidStateError: outside a resumable step.
        """
        duration = read_duration(wait, what="suspend(wait=...)")
        if self._attempt is None or not self._attempt.step.resumable:
            raise InvalidStateError(
                f"Cannot suspend {type(self).__name__} #{self.id}: only a step that is declared with @resumable_step "
                f"can be suspended, from inside. Use reattempt(wait=...) in a plain step."
            )
        self._attempt.suspend(duration)

    # -- looking

    @property
    def hero(self) -> Hero:
        """The record that the workflow belongs to; None when there is none, or it is gone."""
        if self.hero_type is None or self.hero_id is None:
            return cast("Hero", None)
        return cast("Hero", heroes.get(adopted(self._session()), self.hero_type, self.hero_id))

    @property
    def received_signal(self) -> Signal | None:
        """The signal that the running step waited for; None elsewhere."""
        return None if self._attempt is None else self._attempt.received_signal()

    @property
    def current_execution(self) -> StepExecution | None:
        """The execution that is scheduled, waiting or in progress. Its id is the idempotency key for the outside."""
        if self._attempt is not None:
            return self._attempt.step_execution()
        return next((each for each in reversed(self.execution_history) if each.is_open), None)

    @property
    def execution_history(self) -> list[StepExecution]:
        """Every attempt at every step, oldest first, as it is in the database."""
        statement = select(StepExecution).where(StepExecution.workflow_id == self.id).order_by(StepExecution.id)
        return list(self._session().execute(statement.execution_options(populate_existing=True)).scalars())

    @property
    def previous_step_name(self) -> str | None:
        """The step before the one that the workflow stands at."""
        standing = self.current_step_name or self.next_step_name
        if standing is not None:
            step = self.steps.previous_before(standing)
        else:
            step = self.steps.runnable[-1] if self.steps.runnable else None
        return None if step is None else step.name

    @property
    def logger(self) -> StepLogger:
        """A logger whose lines name the workflow, its hero and, in a step, the execution and the step."""
        if self._attempt is not None:
            return self._attempt.logger
        name = self.type if type(self) is Workflow else self.definition.name
        return logger_for(workflow_type=name, workflow_id=self.id, hero_type=self.hero_type, hero_id=self.hero_id)

    @property
    def details(self) -> Details:
        """What was noted about the workflow, as a dict that is stored with the next flush."""
        return Details(self)

    def explain(self) -> str:
        """Say in one sentence where the workflow stands and why. Reads only."""
        runtime, session, _ = self._place()
        return explain(self, session, runtime.now())

    def __repr__(self) -> str:
        identity = inspect(self).identity
        return f"<{type(self).__name__} #{identity[0] if identity else None}>"

    # -- hooks

    def before_step_execution(self, execution: StepExecution) -> None:
        """Override to act before each step; an error in it is an error of the step."""

    def after_step_execution(self, execution: StepExecution) -> None:
        """Override to act after each step, also after a failed one."""

    def around_step_execution(self, execution: StepExecution) -> AbstractContextManager[object]:
        """Override with a context manager that each step runs in."""
        return nullcontext()

    # -- inside

    def _session(self) -> Session:
        return object_session(self) or current_runtime().session()

    def _place(self) -> tuple[Runtime, Session, Self]:
        return current_runtime(), adopted(self._session()), self

    def _end_step(self, verdict: Verdict) -> None:
        if self._attempt is not None:
            raise FlowControl(verdict)

    def _only_in_a_step(self, verb: str) -> None:
        if self._attempt is None:
            raise InvalidStateError(
                f"Cannot {verb} {type(self).__name__} #{self.id}: {verb}() ends a step from inside, and no "
                f"step of this object is running. From outside use pause, resume, resume_at, skip or cancel."
            )


def _class_called(name: str) -> type | None:
    mapper = _mapper().polymorphic_map.get(name)
    return None if mapper is None else mapper.class_


Workflow.definition = read_definition(Workflow)
Workflow.steps = Workflow.definition.steps
_RESERVED = frozenset(name for name in dir(Workflow) if not name.startswith("_"))
