"""The one place where a state changes, together with the timestamps that belong to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from flask_geneva.errors import InvalidStateTransition
from flask_geneva.records.saving import Row, draft
from flask_geneva.records.signal import SignalRow
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import (
    SIGNAL_TRANSITIONS,
    STEP_TRANSITIONS,
    WORKFLOW_TRANSITIONS,
    Outcome,
    SignalState,
    StepState,
    WorkflowState,
)

State = TypeVar("State", bound=StrEnum)

_STAMPED_BY_STATE = {
    StepState.COMPLETED: "completed_at",
    StepState.FAILED: "failed_at",
    StepState.CANCELED: "canceled_at",
    StepState.SKIPPED: "skipped_at",
}
_RESTING = (WorkflowState.PAUSED, WorkflowState.FINISHED, WorkflowState.CANCELED)


def new_workflow(**columns: Any) -> WorkflowRow:
    """Return a workflow that is ready, yet to be inserted."""
    return draft(WorkflowRow, state=WorkflowState.READY, **columns)


def new_execution(**columns: Any) -> ExecutionRow:
    """Return an execution that is scheduled, yet to be inserted."""
    counters = {"completed_iterations": 0, "error_reattempts": 0, "death_reattempts": 0, "stalled_runs": 0}
    return draft(ExecutionRow, state=StepState.SCHEDULED, **{**counters, **columns})


def new_signal(**columns: Any) -> SignalRow:
    """Return a signal that is pending, yet to be inserted."""
    return draft(SignalRow, state=SignalState.PENDING, claimed=0, consumed=0, **columns)


def move_workflow(row: WorkflowRow, state: WorkflowState, *, now: datetime) -> None:
    """Change a workflow's state in memory. ``transitioned_at`` says since when it has been at rest, else nothing."""
    _refuse_illegal(row, row.state, state, WORKFLOW_TRANSITIONS)
    row.change(state=state)
    if state in _RESTING:
        row.change(transitioned_at=now, current_step_name=None)
    elif row.transitioned_at is not None:
        row.change(transitioned_at=None)
    if state in (WorkflowState.FINISHED, WorkflowState.CANCELED) and row.pending_request is not None:
        row.change(pending_request=None)
    if state is WorkflowState.FINISHED:
        row.change(next_step_name=None)


def move_execution(row: ExecutionRow, state: StepState, *, now: datetime, outcome: Outcome | None = None) -> None:
    """Change an execution's state in memory, with its outcome where it ends."""
    _refuse_illegal(row, row.state, state, STEP_TRANSITIONS)
    row.change(state=state)
    if state is StepState.IN_PROGRESS:
        row.change(started_at=now)
    elif state is StepState.WAITING:
        row.change(waiting_since=now)
    elif state is StepState.SCHEDULED:
        row.change(waiting_since=None, deadline_at=None)
    else:
        row.change(outcome=outcome, finished_at=now, **{_STAMPED_BY_STATE[state]: now})
        if row.deadline_at is not None:
            # The index of deadlines holds those alone that may still pass.
            row.change(deadline_at=None)


def move_signal(row: SignalRow, state: SignalState, *, now: datetime) -> None:
    """Change a signal's state in memory; the first claim and the consumption are stamped."""
    _refuse_illegal(row, row.state, state, SIGNAL_TRANSITIONS)
    row.change(state=state)
    if state is SignalState.CLAIMED and row.claimed_at is None:
        row.change(claimed_at=now)
    elif state is SignalState.CONSUMED:
        row.change(consumed_at=now)


def _refuse_illegal(row: Row, old: State, new: State, table: Mapping[Any, frozenset[Any]]) -> None:
    if new is old or new in table[old]:
        return
    name = row.table.name
    raise InvalidStateTransition(f"{name} #{row.__dict__.get('id')} is '{old}' and cannot become '{new}'.")
