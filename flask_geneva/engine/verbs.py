"""What an operator, or any code outside a step, does to a workflow: pause, resume, resume at, skip, cancel.

Each verb locks the row of the workflow that it was called on, reads the state there, and refuses before it writes.
It flushes into the caller's transaction and takes effect when the caller commits.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import inspect
from sqlalchemy.orm import Session

from flask_geneva.definition.verdicts import Skipped
from flask_geneva.engine.finalization import conclude, proceed_after
from flask_geneva.engine.outbox import announce_rest_after_commit
from flask_geneva.engine.resumption import resumed, step_of
from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import Runtime
from flask_geneva.engine.scheduling import execution_of, store
from flask_geneva.engine.signal_delivery import claim_again, held_signal_id, settle
from flask_geneva.engine.transactions import lock_workflow, newest_execution, open_executions
from flask_geneva.errors import InvalidStateError
from flask_geneva.records.instances import instance_of, refresh_from, show
from flask_geneva.records.saving import save
from flask_geneva.records.step_execution import ExecutionRow, StepExecution
from flask_geneva.records.transitions import move_execution, move_workflow
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import Outcome, PendingRequest, StepState, WorkflowState

_ADVICE = {
    WorkflowState.READY: "It goes on by itself; pause it first to resume it elsewhere.",
    WorkflowState.PERFORMING: "Pause it and wait until the step in hand has ended.",
    WorkflowState.PAUSED: "Resume, skip or cancel it.",
    WorkflowState.FINISHED: "It is done; create another one.",
    WorkflowState.CANCELED: "It is done; create another one.",
}


def pause(runtime: Runtime, session: Session, workflow_object: Any) -> None:
    """Stop before the next step; a performing workflow stops when the step in hand ends."""
    run, workflow = _locked(runtime, session, workflow_object, "pause")
    if workflow.state is WorkflowState.PERFORMING:
        if workflow.pending_request is None:
            workflow.change(pending_request=PendingRequest.PAUSE)
        _done(run, workflow_object, workflow)
        return
    _refuse_unless(workflow, "pause", WorkflowState.READY)
    move_workflow(workflow, WorkflowState.PAUSED, now=run.now)
    _done(run, workflow_object, workflow)


def resume(runtime: Runtime, session: Session, workflow_object: Any) -> StepExecution | None:
    """Let a paused workflow go on from where it stands, or withdraw a pause that has not taken effect."""
    run, workflow = _locked(runtime, session, workflow_object, "resume")
    if workflow.state is WorkflowState.PERFORMING and workflow.pending_request is PendingRequest.PAUSE:
        workflow.change(pending_request=None)
        _done(run, workflow_object, workflow)
        return None
    _refuse_unless(workflow, "resume", WorkflowState.PAUSED)
    execution = resumed(run, workflow, workflow_object)
    _done(run, workflow_object, workflow, execution)
    return None if execution is None else instance_of(session, StepExecution, execution)


def resume_at(runtime: Runtime, session: Session, workflow_object: Any, step_name: str) -> StepExecution:
    """Let a paused workflow go on from the named step, at once and from its beginning."""
    run, workflow = _locked(runtime, session, workflow_object, "resume_at")
    _refuse_unless(workflow, "resume_at", WorkflowState.PAUSED)
    step_of(run, workflow, workflow_object, step_name, "resume_at", to_run=True)
    _cancel_what_is_open(run, workflow)
    move_workflow(workflow, WorkflowState.READY, now=run.now)
    signal_id = held_signal_id(session, workflow.id, step_name)
    execution = execution_of(workflow, step_name, due=run.now, signal_id=signal_id)
    claim_again(session, execution, now=run.now)
    _done(run, workflow_object, workflow, execution)
    return instance_of(session, StepExecution, execution)


def skip(runtime: Runtime, session: Session, workflow_object: Any) -> None:
    """Pass over the step that the workflow stands at and schedule the next one."""
    run, workflow = _locked(runtime, session, workflow_object, "skip")
    _refuse_unless(workflow, "skip", WorkflowState.READY, WorkflowState.PAUSED)
    standing = open_executions(session, workflow.id)
    step_name = standing[0].step_name if standing else workflow.next_step_name
    step_of(run, workflow, workflow_object, step_name, "skip")
    if standing:
        follower = conclude(run, workflow, standing[0], Skipped())
        _save(run, standing[0])
    else:
        holder = newest_execution(session, workflow.id, step_name)
        if holder is not None and holder.signal_id == held_signal_id(session, workflow.id, holder.step_name):
            settle(session, holder, now=run.now)
        follower = proceed_after(run, workflow, step_name)
    _done(run, workflow_object, workflow, follower)


def cancel(runtime: Runtime, session: Session, workflow_object: Any) -> None:
    """End the workflow; a performing one ends when the step in hand has."""
    run, workflow = _locked(runtime, session, workflow_object, "cancel")
    if workflow.state is WorkflowState.PERFORMING:
        if workflow.pending_request is not PendingRequest.CANCEL:
            workflow.change(pending_request=PendingRequest.CANCEL)
        _done(run, workflow_object, workflow)
        return
    _refuse_unless(workflow, "cancel", WorkflowState.READY, WorkflowState.PAUSED)
    _cancel_what_is_open(run, workflow)
    move_workflow(workflow, WorkflowState.CANCELED, now=run.now)
    _done(run, workflow_object, workflow)


def _locked(runtime: Runtime, session: Session, workflow_object: Any, verb: str) -> tuple[Run, WorkflowRow]:
    session.flush()
    # Not the attribute, which an expired object would read first, and a detached one could not.
    identity = inspect(workflow_object).identity
    workflow = lock_workflow(session, identity[0]) if identity else None
    if workflow is None:
        raise InvalidStateError(f"Cannot {verb} {workflow_object!r}: it is not stored, or not any more.")
    return Run(runtime, session, runs_ahead=False), workflow


def _refuse_unless(workflow: WorkflowRow, verb: str, *states: WorkflowState) -> None:
    if workflow.state in states:
        return
    asked = f" and a {workflow.pending_request} is pending" if workflow.pending_request is not None else ""
    name = f"{workflow.type} #{workflow.id}"
    raise InvalidStateError(f"Cannot {verb} {name}: the workflow is {workflow.state}{asked}. {_ADVICE[workflow.state]}")


def _cancel_what_is_open(run: Run, workflow: WorkflowRow) -> None:
    for execution in open_executions(run.session, workflow.id):
        move_execution(execution, StepState.CANCELED, now=run.now, outcome=Outcome.CANCELED)
        _save(run, execution)


def _save(run: Run, execution: ExecutionRow) -> None:
    save(run.session, execution, now=run.now)
    show(run.session, StepExecution, execution)


def _done(run: Run, workflow_object: Any, workflow: WorkflowRow, execution: ExecutionRow | None = None) -> None:
    """Store what the verb did, and let the caller's objects show it."""
    store(run.runtime, run.session, workflow, execution, now=run.now)
    if execution is not None:
        show(run.session, StepExecution, execution)
    refresh_from(workflow_object, workflow)
    if workflow_object in run.session:
        run.session.expire(workflow_object, ["step_executions", "signals"])
    announce_rest_after_commit(run.runtime, run.session, workflow)
