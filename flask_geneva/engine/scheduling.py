"""The execution that comes next: the row of a first, next, repeated or continued attempt, and the job that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from flask_geneva.definition.steps import StepDefinition
from flask_geneva.engine.outbox import enqueue_after_commit
from flask_geneva.engine.runtime import JobRequest, Runtime, new_job_id
from flask_geneva.records.saving import save
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.transitions import new_execution
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import StepState, WorkflowState

NOW = timedelta(0)


def next_execution(workflow: WorkflowRow, step: StepDefinition, *, now: datetime) -> ExecutionRow:
    """Draft the first attempt at a step, due after the step's own wait, and point the workflow at it."""
    return execution_of(workflow, step.name, due=now + (step.wait or NOW))


def execution_of(workflow: WorkflowRow, step_name: str, *, due: datetime, **carried: Any) -> ExecutionRow:
    """Draft an attempt at the step, and point the workflow at it."""
    if workflow.next_step_name != step_name:
        workflow.change(next_step_name=step_name)
    return new_execution(
        workflow_id=workflow.id, step_name=step_name, scheduled_for=due, job_id=new_job_id(), **carried
    )


def successor_of(
    execution: ExecutionRow, workflow: WorkflowRow, *, due: datetime, rewind: bool = False
) -> ExecutionRow:
    """Draft the execution that goes on where this one stopped: same signal, same cursor unless rewound."""
    carried: dict[str, Any] = {
        "signal_id": execution.signal_id,
        "error_reattempts": execution.error_reattempts,
        "death_reattempts": execution.death_reattempts,
    }
    if execution.deadline_passed:
        carried["details"] = {"deadline_passed": True}
    if is_under_way(execution):
        carried["continues_from_id"] = execution.id
        if not rewind:
            carried["cursor_value"] = execution.cursor_value
            carried["iteration_total"] = execution.iteration_total
            carried["items_done"] = execution.items_done
    return execution_of(workflow, execution.step_name, due=due, **carried)


def is_under_way(execution: ExecutionRow) -> bool:
    """Whether an execution of a resumable step has made a checkpoint, or goes on from one that has."""
    has_begun = execution.cursor_value is not None or execution.completed_iterations > 0
    return has_begun or execution.continues_from_id is not None


def store(
    runtime: Runtime, session: Session, workflow: WorkflowRow, execution: ExecutionRow | None, *, now: datetime
) -> None:
    """Save both rows and, where the execution waits for a moment, see to it that a job comes then."""
    save(session, execution, workflow, now=now)
    if execution is not None:
        send(runtime, session, workflow, execution, now=now)


def send(runtime: Runtime, session: Session, workflow: WorkflowRow, execution: ExecutionRow, *, now: datetime) -> None:
    """Enqueue the execution's job after the commit, when the workflow is ready and the moment not too far ahead."""
    if workflow.state is not WorkflowState.READY:
        return
    moment = execution.deadline_at if execution.state is StepState.WAITING else execution.scheduled_for
    if moment is None or execution.state not in (StepState.SCHEDULED, StepState.WAITING):
        return
    horizon = runtime.settings.spool_horizon
    if horizon is not None and moment - now > horizon:
        return
    assert execution.job_id is not None
    _enqueue(runtime, session, workflow, execution, execution.job_id, due=moment if moment > now else None)


def send_at_once(
    runtime: Runtime, session: Session, workflow: WorkflowRow, execution: ExecutionRow, *, now: datetime
) -> None:
    """Enqueue a job after the commit for a worker to look what is to become of a parked execution. Flushes."""
    job_id = new_job_id()
    execution.change(job_id=job_id)
    save(session, execution, now=now)
    _enqueue(runtime, session, workflow, execution, job_id, due=None)


def _enqueue(
    runtime: Runtime,
    session: Session,
    workflow: WorkflowRow,
    execution: ExecutionRow,
    job_id: str,
    *,
    due: datetime | None,
) -> None:
    options = job_options(runtime, workflow, execution.step_name)
    request = JobRequest(job_id=job_id, execution_id=execution.id, due=due, options=options)
    enqueue_after_commit(runtime, session, request)


def job_options(runtime: Runtime, workflow: WorkflowRow, step_name: str) -> Mapping[str, Any]:
    """Merge the options of a step's job: class < instance < step."""
    instance = (workflow.details or {}).get("job_options") or {}
    workflow_class = runtime.class_named(workflow.type)
    if workflow_class is None:
        return instance
    definition = workflow_class.definition
    step = definition.steps.get(step_name)
    if not instance and (step is None or not step.job_options):
        options: Mapping[str, Any] = definition.job_options
        return options
    return {**definition.job_options, **instance, **(step.job_options if step is not None else {})}
