"""Phase 3: what a verdict does to the rows. This is the one table of endings; nothing is saved here."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

from flask_geneva.definition.verdicts import (
    Canceled,
    Completed,
    Finished,
    Paused,
    Reattempted,
    Recovered,
    Skipped,
    Suspended,
    Verdict,
)
from flask_geneva.engine.attempt import TRANSIENT
from flask_geneva.engine.run import Run
from flask_geneva.engine.scheduling import next_execution, successor_of
from flask_geneva.engine.signal_delivery import claim_again, settle
from flask_geneva.errors import NoProgress
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.transitions import move_execution, move_workflow
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import Outcome, PendingRequest, StepState, WorkflowState

COUNTED_REASONS = ("exception_policy", "precondition")
MAX_STALLED_RUNS = 100
MAX_MESSAGE = 10_000
MAX_BACKTRACE = 100_000


def conclude(run: Run, workflow: WorkflowRow, execution: ExecutionRow, verdict: Verdict) -> ExecutionRow | None:
    """Move both rows, which are locked, as the verdict says; return a draft of what follows, or None.

    An operator's pending request is honoured here: the step ends as it ends, and then the workflow stops.
    """
    follower = _ENDINGS[type(verdict)](run, workflow, execution, verdict)
    request = workflow.pending_request
    if request is not None and workflow.state is WorkflowState.READY:
        workflow.change(pending_request=None)
        if request is PendingRequest.CANCEL:
            move_workflow(workflow, WorkflowState.CANCELED, now=run.now)
            return None
        move_workflow(workflow, WorkflowState.PAUSED, now=run.now)
    if follower is not None and follower.signal_id is not None and follower.continues_from_id is None:
        claim_again(run.session, follower, now=run.now)
    return follower


def _completed(run: Run, workflow: WorkflowRow, execution: ExecutionRow, verdict: Completed) -> ExecutionRow | None:
    move_execution(execution, StepState.COMPLETED, now=run.now, outcome=Outcome.SUCCESS)
    return _proceed(run, workflow, execution)


def _skipped(run: Run, workflow: WorkflowRow, execution: ExecutionRow, verdict: Skipped) -> ExecutionRow | None:
    move_execution(execution, StepState.SKIPPED, now=run.now, outcome=Outcome.SKIPPED)
    if verdict.error is not None:
        execution.note(exception=_exception_record(verdict.error))
    return _proceed(run, workflow, execution)


def _reattempted(run: Run, workflow: WorkflowRow, execution: ExecutionRow, verdict: Reattempted) -> ExecutionRow:
    move_execution(execution, StepState.COMPLETED, now=run.now, outcome=Outcome.REATTEMPTED)
    execution.note(reattempt_reason=verdict.reason)
    if verdict.error is not None:
        execution.note(exception=_exception_record(verdict.error))
    _make_ready(run, workflow)
    follower = _again(run, workflow, execution, wait=verdict.wait, rewind=verdict.rewind)
    follower.change(death_reattempts=0)
    if verdict.reason == TRANSIENT:
        follower.change(stalled_runs=0 if verdict.progressed else execution.stalled_runs + 1)
    if verdict.reason in COUNTED_REASONS:
        before = 0 if verdict.progressed else execution.error_reattempts
        follower.change(error_reattempts=before + 1)
    return follower


def _suspended(run: Run, workflow: WorkflowRow, execution: ExecutionRow, verdict: Suspended) -> ExecutionRow | None:
    if workflow.pending_request is PendingRequest.CANCEL:
        _canceled(run, workflow, execution, Canceled())
        return None
    paused = workflow.pending_request is PendingRequest.PAUSE
    if not paused and not verdict.progressed and execution.stalled_runs + 1 >= MAX_STALLED_RUNS:
        _paused(run, workflow, execution, Paused(error=NoProgress(execution.step_name, MAX_STALLED_RUNS)))
        return None
    outcome = Outcome.WORKFLOW_PAUSED if paused else Outcome.CONTINUED
    move_execution(execution, StepState.COMPLETED, now=run.now, outcome=outcome)
    if paused:
        workflow.change(pending_request=None)
        move_workflow(workflow, WorkflowState.PAUSED, now=run.now)
        return None
    _make_ready(run, workflow)
    follower = successor_of(execution, workflow, due=run.now + (verdict.wait or timedelta(0)))
    stalled_runs = 0 if verdict.progressed else execution.stalled_runs + 1
    follower.change(continues_from_id=execution.id, stalled_runs=stalled_runs, death_reattempts=0)
    if verdict.progressed:
        # The errors before and after a part that went well are not consecutive.
        follower.change(error_reattempts=0)
    return follower


def _recovered(run: Run, workflow: WorkflowRow, execution: ExecutionRow, verdict: Recovered) -> ExecutionRow | None:
    if verdict.error is not None:
        execution.note(exception=_exception_record(verdict.error))
    if verdict.action == "cancel":
        move_execution(execution, StepState.CANCELED, now=run.now, outcome=Outcome.RECOVERED)
        move_workflow(workflow, WorkflowState.CANCELED, now=run.now)
        return None
    if verdict.action == "pause":
        _paused(run, workflow, execution, Paused(error=verdict.error))
        return None
    move_execution(execution, StepState.COMPLETED, now=run.now, outcome=Outcome.RECOVERED)
    _make_ready(run, workflow)
    follower = _again(run, workflow, execution, wait=None, rewind=False)
    if verdict.deaths:
        follower.change(error_reattempts=execution.error_reattempts + 1, death_reattempts=verdict.deaths)
    return follower


def _finished(run: Run, workflow: WorkflowRow, execution: ExecutionRow, verdict: Finished) -> None:
    move_execution(execution, StepState.COMPLETED, now=run.now, outcome=Outcome.SUCCESS)
    if verdict.error is not None:
        execution.note(exception=_exception_record(verdict.error))
    settle(run.session, execution, now=run.now)
    _finish(run, workflow)


def _paused(run: Run, workflow: WorkflowRow, execution: ExecutionRow, verdict: Paused) -> None:
    if verdict.error is not None:
        _fail(run, execution, verdict.error, Outcome.FAILED)
    elif execution.state is StepState.IN_PROGRESS and _is_resumable(run, workflow, execution):
        move_execution(execution, StepState.COMPLETED, now=run.now, outcome=Outcome.WORKFLOW_PAUSED)
    else:
        move_execution(execution, StepState.CANCELED, now=run.now, outcome=Outcome.CANCELED)
    if workflow.pending_request is PendingRequest.CANCEL:
        move_workflow(workflow, WorkflowState.CANCELED, now=run.now)
        return
    workflow.change(pending_request=None)
    move_workflow(workflow, WorkflowState.PAUSED, now=run.now)


def _canceled(run: Run, workflow: WorkflowRow, execution: ExecutionRow, verdict: Canceled) -> None:
    if verdict.error is not None:
        _fail(run, execution, verdict.error, Outcome.CANCELED)
    else:
        move_execution(execution, StepState.CANCELED, now=run.now, outcome=Outcome.CANCELED)
    move_workflow(workflow, WorkflowState.CANCELED, now=run.now)


_Ending = Callable[[Run, WorkflowRow, ExecutionRow, Any], "ExecutionRow | None"]

_ENDINGS: dict[type, _Ending] = {
    Completed: _completed,
    Skipped: _skipped,
    Reattempted: _reattempted,
    Suspended: _suspended,
    Recovered: _recovered,
    Finished: cast("_Ending", _finished),
    Paused: cast("_Ending", _paused),
    Canceled: cast("_Ending", _canceled),
}


def proceed_after(run: Run, workflow: WorkflowRow, step_name: str | None) -> ExecutionRow | None:
    """Draft the first attempt at the next runnable step; where there is none, the workflow is finished."""
    workflow_class = run.runtime.class_named(workflow.type)
    step = None if workflow_class is None else workflow_class.definition.steps.next_after(step_name)
    if step is None:
        _finish(run, workflow)
        return None
    _make_ready(run, workflow)
    return next_execution(workflow, step, now=run.now)


def _proceed(run: Run, workflow: WorkflowRow, execution: ExecutionRow) -> ExecutionRow | None:
    settle(run.session, execution, now=run.now)
    return proceed_after(run, workflow, execution.step_name)


def _finish(run: Run, workflow: WorkflowRow) -> None:
    """There are no more steps; a cancellation that was asked for during the last one stands all the same."""
    is_to_be_canceled = workflow.pending_request is PendingRequest.CANCEL
    move_workflow(workflow, WorkflowState.CANCELED if is_to_be_canceled else WorkflowState.FINISHED, now=run.now)


def _make_ready(run: Run, workflow: WorkflowRow) -> None:
    move_workflow(workflow, WorkflowState.READY, now=run.now)
    if workflow.current_step_name is not None:
        workflow.change(current_step_name=None)


def _again(
    run: Run, workflow: WorkflowRow, execution: ExecutionRow, *, wait: timedelta | None, rewind: bool
) -> ExecutionRow:
    return successor_of(execution, workflow, due=run.now + (wait or timedelta(0)), rewind=rewind)


def _is_resumable(run: Run, workflow: WorkflowRow, execution: ExecutionRow) -> bool:
    workflow_class = run.runtime.class_named(workflow.type)
    step = None if workflow_class is None else workflow_class.definition.steps.get(execution.step_name)
    return step is not None and bool(step.resumable)


def _fail(run: Run, execution: ExecutionRow, error: BaseException, outcome: Outcome) -> None:
    record = _exception_record(error)
    move_execution(execution, StepState.FAILED, now=run.now, outcome=outcome)
    execution.change(
        error_class_name=record["class"][:255],
        error_message=record["message"],
        error_backtrace="\n".join(record["backtrace"]),
    )
    execution.note(exception=record)


def _exception_record(error: BaseException) -> dict[str, Any]:
    """The error as stored: long texts are cut at the front of the backtrace, since the end says where it happened."""
    lines = "".join(traceback.format_exception(error))[-MAX_BACKTRACE:]
    return {
        "class": type(error).__name__,
        "message": _storable(_message(error))[:MAX_MESSAGE],
        "backtrace": _storable(lines).splitlines(),
    }


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:
        return f"<the message cannot be read: {type(failure).__name__}>"


def _storable(text: str) -> str:
    """PostgreSQL stores no NUL, and UTF-8 no lone surrogate."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
