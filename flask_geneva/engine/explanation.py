"""One sentence for people: where a workflow stands, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from flask_geneva.definition.signal_matchers import describe
from flask_geneva.definition.steps import StepDefinition
from flask_geneva.engine.progress import progress_of
from flask_geneva.errors import GenevaError
from flask_geneva.records.base import models_known_to
from flask_geneva.records.tables import step_executions
from flask_geneva.records.values import decode
from flask_geneva.states import OPEN_STEP_STATES, Outcome, PendingRequest, StepState, WorkflowState

if TYPE_CHECKING:
    from flask_geneva.definition.step_sequence import StepSequence
    from flask_geneva.workflow import Workflow

# A backtrace can be megabytes, and no sentence needs it.
_COLUMNS = [column for column in step_executions.c if column.key != "error_backtrace"]
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
_LONGEST_QUOTE = 200


def explain(workflow: Workflow[Any], session: Session, now: datetime) -> str:
    """Say where the workflow stands and why. Reads only."""
    newest = (
        select(*_COLUMNS)
        .where(step_executions.c.workflow_id == workflow.id)
        .order_by(step_executions.c.id.desc())
        .limit(2)
    )
    attempts = session.execute(newest).all()
    return _Scene(workflow, session, now, attempts[0] if attempts else None, attempts[1:]).told()


def in_words(duration: timedelta) -> str:
    """Say how long something is, in its largest unit: ``3 days``, ``1 hour``, ``20 seconds``, ``a moment``."""
    seconds = round(abs(duration).total_seconds())
    for unit, size in _UNITS:
        number = seconds // size
        if number:
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return "a moment"


@dataclass(frozen=True)
class _Scene:
    """A workflow at one moment, with its newest attempt and the one before."""

    workflow: Workflow[Any]
    session: Session
    now: datetime
    attempt: Row[Any] | None
    earlier: Any

    def told(self) -> str:
        if self.workflow.state in (WorkflowState.FINISHED, WorkflowState.CANCELED):
            return self._ended()
        if self._steps is None:
            return (
                f"{self.workflow.state}, but no class named '{self.workflow.type}' is declared; import it in the "
                f"application factory or declare it again, or cancel the workflow"
            )
        tellers = {
            WorkflowState.READY: self._ready,
            WorkflowState.PERFORMING: self._performing,
            WorkflowState.PAUSED: self._paused,
        }
        return tellers[self.workflow.state]()

    # -- the states

    def _ended(self) -> str:
        since = self.workflow.transitioned_at
        text = f"{self.workflow.state}{f' {in_words(self.now - since)} ago' if since is not None else ''}"
        attempt = self.attempt
        if self.workflow.state is WorkflowState.FINISHED or attempt is None:
            return text
        failed = f": {_error_of(attempt)}" if attempt.state is StepState.FAILED else ""
        return f"{text} on {attempt.step_name}{failed}"

    def _ready(self) -> str:
        if self._standing is None:
            return "ready, but no step is scheduled; housekeeping mends that"
        if self._standing.state is StepState.WAITING:
            return self._parked()
        return f"scheduled: {self._due()}{self._progress()}{self._why_again()}{self._objection()}"

    def _performing(self) -> str:
        if self._standing is None:
            return "performing, but no step is in progress; housekeeping mends that"
        since = self._standing.started_at or self._standing.scheduled_for
        step_name = self._standing.step_name
        return (
            f"performing {step_name} since {in_words(self.now - since)}{self._progress()}"
            f"{self._why_again()}{self._request()}"
        )

    def _paused(self) -> str:
        if self._stranded is not None:
            return f"paused at {self._stranded}, which {self.workflow.type} does not define; {self._way_out}"
        if self._standing is not None:
            if self._standing.state is StepState.WAITING:
                return f"paused while {self._parked()}; resume lets it wait on"
            return f"paused: {self._due()}{self._progress()}; resume lets it go on"
        step_name = self.workflow.next_step_name
        attempt = self.attempt
        if attempt is None or attempt.step_name != step_name:
            return f"paused before {step_name}; resume schedules it"
        if attempt.state is StepState.FAILED:
            return f"paused: {step_name} failed with {_error_of(attempt)}{self._progress()}; {self._resume_does}"
        return f"paused in {step_name}{self._progress()}; {self._resume_does}"

    # -- parts of the sentence

    def _parked(self) -> str:
        standing = self._standing
        assert standing is not None
        since = standing.waiting_since or standing.scheduled_for
        text = f"parked on {standing.step_name} since {in_words(self.now - since)}"
        step = self._step_named(standing.step_name)
        if step is None:
            return f"{text}, but {self.workflow.type} does not define it; pause it, then {self._way_out}"
        if step.removed:
            return f"{text}, a step that was removed; housekeeping lets it go on"
        awaited = f", waiting for {describe(step.wait_for)}" if step.waits_for_signal else ", though it needs no signal"
        return f"{text}{awaited}{self._deadline(standing.deadline_at, step)}"

    def _deadline(self, deadline: datetime | None, step: StepDefinition) -> str:
        if deadline is None:
            return ""
        apart = in_words(deadline - self.now)
        when = f"in {apart}" if deadline > self.now else f"passed {apart} ago"
        return f" (deadline {when}, then: {step.on_deadline})"

    def _due(self) -> str:
        standing = self._standing
        assert standing is not None
        apart = standing.scheduled_for - self.now
        if apart > timedelta(0):
            return f"{standing.step_name} is due in {in_words(apart)}"
        late = "" if -apart < timedelta(seconds=1) else f" since {in_words(apart)}"
        return f"{standing.step_name} is due{late}"

    def _progress(self) -> str:
        attempt = self.attempt
        if attempt is None or (attempt.cursor_value is None and not attempt.completed_iterations):
            return ""
        before = self.earlier[0] if self.earlier else None
        is_continued = before is not None and attempt.continues_from_id == before.id
        progress = progress_of(attempt, before if is_continued else None)
        return f" ({progress}, cursor {self._cursor(attempt.cursor_value)})"

    def _cursor(self, structure: Any) -> str:
        try:
            return _shortened(repr(decode(structure, self.session, models_known_to(self.session))))
        except GenevaError as error:
            return f"unreadable: {error}"

    def _why_again(self) -> str:
        """The error that the attempt before met, where this one repeats it."""
        standing = self._standing
        if standing is None or not self.earlier or self.earlier[0].outcome is not Outcome.REATTEMPTED:
            return ""
        before = self.earlier[0]
        error = (before.details or {}).get("exception")
        if before.step_name != standing.step_name or not error:
            return ""
        return f", retry {standing.error_reattempts} after {error['class']}: {_shortened(error['message'])}"

    def _objection(self) -> str:
        standing = self._standing
        if standing is None or self._step_named(standing.step_name) is not None:
            return ""
        return f", but {self.workflow.type} does not define it; it will be paused"

    def _request(self) -> str:
        request = self.workflow.pending_request
        if request is None:
            return ""
        noun = "a pause" if request is PendingRequest.PAUSE else "a cancellation"
        return f"; {noun} was asked for and comes when the step in hand ends"

    # -- what is known

    @property
    def _steps(self) -> StepSequence | None:
        definition = getattr(type(self.workflow), "definition", None)
        return None if definition is None or self.workflow.type not in definition.stored_names else definition.steps

    def _step_named(self, name: str | None) -> StepDefinition | None:
        return None if self._steps is None or name is None else self._steps.get(name)

    @property
    def _standing(self) -> Row[Any] | None:
        attempt = self.attempt
        return attempt if attempt is not None and attempt.state in OPEN_STEP_STATES else None

    @property
    def _stranded(self) -> str | None:
        """The step that the workflow stands at, where its class does not define it."""
        name = self._standing.step_name if self._standing is not None else self.workflow.next_step_name
        return name if name is not None and self._step_named(name) is None else None

    @property
    def _way_out(self) -> str:
        names = ", ".join(step.name for step in self._steps.runnable) if self._steps is not None else ""
        return f"continue with resume_at('step') from one of {names or 'none'}, or cancel"

    @property
    def _resume_does(self) -> str:
        step = self._step_named(self.workflow.next_step_name)
        if step is not None and step.removed:
            return "resume passes over it, for it was removed"
        keeps = step is not None and step.resumable and self.attempt is not None
        if keeps and self.attempt is not None and self.attempt.cursor_value is not None:
            return "resume goes on from its cursor"
        return "resume runs it again"


def _error_of(attempt: Row[Any]) -> str:
    if not attempt.error_class_name:
        return "no error that was stored"
    message = _shortened(attempt.error_message or "")
    return f"{attempt.error_class_name}: {message}" if message else str(attempt.error_class_name)


def _shortened(text: str) -> str:
    """The first line, not too long: a sentence is for reading."""
    lines = text.strip().splitlines()
    first = lines[0].rstrip(".") if lines else ""
    return first if len(first) <= _LONGEST_QUOTE else f"{first[:_LONGEST_QUOTE]}..."
