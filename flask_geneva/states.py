"""The states of workflows, step executions and signals, and which state may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class WorkflowState(StrEnum):
    """Where a workflow stands."""

    READY = "ready"
    PERFORMING = "performing"
    PAUSED = "paused"
    FINISHED = "finished"
    CANCELED = "canceled"


class StepState(StrEnum):
    """Where one attempt at a step stands."""

    SCHEDULED = "scheduled"
    WAITING = "waiting"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    SKIPPED = "skipped"


class SignalState(StrEnum):
    """How far a signal has been handled."""

    PENDING = "pending"
    CLAIMED = "claimed"
    CONSUMED = "consumed"


class Outcome(StrEnum):
    """How an attempt at a step ended; a row that has not ended has none."""

    SUCCESS = "success"
    REATTEMPTED = "reattempted"
    CONTINUED = "continued"
    SKIPPED = "skipped"
    CANCELED = "canceled"
    FAILED = "failed"
    RECOVERED = "recovered"
    WORKFLOW_PAUSED = "workflow_paused"


class PendingRequest(StrEnum):
    """What an operator asked of a performing workflow; it takes effect when the step in hand ends."""

    PAUSE = "pause"
    CANCEL = "cancel"


ONGOING_WORKFLOW_STATES = (WorkflowState.READY, WorkflowState.PERFORMING, WorkflowState.PAUSED)
ENDED_WORKFLOW_STATES = (WorkflowState.FINISHED, WorkflowState.CANCELED)
RUNNABLE_WORKFLOW_STATES = (WorkflowState.READY, WorkflowState.PERFORMING)
OPEN_STEP_STATES = (StepState.SCHEDULED, StepState.WAITING, StepState.IN_PROGRESS)
ACTIVE_STEP_STATES = (StepState.SCHEDULED, StepState.IN_PROGRESS)

_W, _S, _G = WorkflowState, StepState, SignalState

# A row may always be written with the state that it has already.
WORKFLOW_TRANSITIONS: Mapping[WorkflowState, frozenset[WorkflowState]] = {
    _W.READY: frozenset({_W.PERFORMING, _W.PAUSED, _W.FINISHED, _W.CANCELED}),
    _W.PERFORMING: frozenset({_W.READY, _W.PAUSED, _W.FINISHED, _W.CANCELED}),
    _W.PAUSED: frozenset({_W.READY, _W.FINISHED, _W.CANCELED}),
    _W.FINISHED: frozenset(),
    _W.CANCELED: frozenset(),
}
STEP_TRANSITIONS: Mapping[StepState, frozenset[StepState]] = {
    _S.SCHEDULED: frozenset({_S.WAITING, _S.IN_PROGRESS, _S.COMPLETED, _S.FAILED, _S.CANCELED, _S.SKIPPED}),
    _S.WAITING: frozenset({_S.SCHEDULED, _S.FAILED, _S.CANCELED, _S.SKIPPED}),
    _S.IN_PROGRESS: frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELED, _S.SKIPPED}),
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELED: frozenset(),
    _S.SKIPPED: frozenset(),
}
SIGNAL_TRANSITIONS: Mapping[SignalState, frozenset[SignalState]] = {
    _G.PENDING: frozenset({_G.CLAIMED}),
    _G.CLAIMED: frozenset({_G.CONSUMED}),
    _G.CONSUMED: frozenset(),
}
