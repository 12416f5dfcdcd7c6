"""How a paused workflow goes on: with the row that stayed, with a new meeting, from a cursor, or afresh."""

from __future__ import annotations

from typing import Any

from flask_geneva.definition.steps import StepDefinition
from flask_geneva.definition.verdicts import Skipped
from flask_geneva.engine.attempt import Attempt
from flask_geneva.engine.finalization import conclude, proceed_after
from flask_geneva.engine.preparation import on_deadline
from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import new_job_id
from flask_geneva.engine.scheduling import execution_of, is_under_way, successor_of
from flask_geneva.engine.signal_delivery import claim_again, held_signal_id, meet_again
from flask_geneva.engine.transactions import newest_execution, open_executions
from flask_geneva.errors import StepNotDefinedError, WorkflowNotDefinedError
from flask_geneva.records.instances import show
from flask_geneva.records.saving import save
from flask_geneva.records.step_execution import ExecutionRow, StepExecution
from flask_geneva.records.transitions import move_execution, move_workflow
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import StepState, WorkflowState


def resumed(run: Run, workflow: WorkflowRow, workflow_object: Any) -> ExecutionRow | None:
    """Make a paused workflow, which is locked, ready again; return the execution that is to be stored and sent.

    :raises StepNotDefinedError: where the step that it stands at is gone; nothing was changed then.
    """
    standing = open_executions(run.session, workflow.id)
    step_name = standing[0].step_name if standing else workflow.next_step_name
    step = step_of(run, workflow, workflow_object, step_name, "resume")
    move_workflow(workflow, WorkflowState.READY, now=run.now)
    if not standing:
        return afresh(run, workflow, step)
    attempt = Attempt(run.runtime, run.session, workflow, standing[0], class_of(run, workflow, "resume"), step)
    return _with_the_row_that_stayed(run, attempt, workflow_object)


def class_of(run: Run, workflow: WorkflowRow, verb: str) -> type[Any]:
    """Return the class that a verb is to act by.

    :raises WorkflowNotDefinedError: where no loaded module declares it.
    """
    workflow_class = run.runtime.class_named(workflow.type)
    if workflow_class is None:
        raise WorkflowNotDefinedError(workflow.type, workflow.id, verb)
    return workflow_class


def step_of(
    run: Run, workflow: WorkflowRow, workflow_object: Any, step_name: str | None, verb: str, *, to_run: bool = False
) -> StepDefinition:
    """Return the step that a verb is about; one that is ``to_run`` must not be a gravestone.

    :raises StepNotDefinedError: with the steps that there are.
    """
    steps = class_of(run, workflow, verb).definition.steps
    step: StepDefinition | None = steps.get(step_name)
    if step is not None and not (to_run and step.removed):
        return step
    action, runnable = f"{verb} {workflow.type} #{workflow.id}", [each.name for each in steps.runnable]
    raise StepNotDefinedError(
        action, workflow.type, step_name, runnable, removed=step is not None, workflow=workflow_object
    )


def _with_the_row_that_stayed(run: Run, attempt: Attempt, workflow_object: Any) -> ExecutionRow | None:
    execution = attempt.execution
    # The operator's verb begins the count of errors anew; the old job's id may be spent.
    execution.change(error_reattempts=0, death_reattempts=0, job_id=new_job_id())
    return unparked(run, attempt, workflow_object) if execution.state is StepState.WAITING else execution


def unparked(run: Run, attempt: Attempt, workflow_object: Any) -> ExecutionRow | None:
    """Let a parked row, which is locked, go on where nothing keeps it any more; return what is to be stored and sent.

    That is its signal having come, its step needing none since a deploy or being removed, or its deadline having
    passed, while nobody could look. Else it is returned as it is.
    """
    execution, step = attempt.execution, attempt.step
    if step.removed:
        return _ended(run, attempt, Skipped())
    if not step.waits_for_signal:
        move_execution(execution, StepState.SCHEDULED, now=run.now)
        execution.change(job_id=new_job_id())
        return execution
    if meet_again(attempt, workflow_object, now=run.now):
        return execution
    if execution.deadline_at is not None and execution.deadline_at <= run.now:
        verdict = on_deadline(attempt, run)
        return execution if verdict is None else _ended(run, attempt, verdict)
    return execution


def _ended(run: Run, attempt: Attempt, verdict: Any) -> ExecutionRow | None:
    follower = conclude(run, attempt.workflow, attempt.execution, verdict)
    save(run.session, attempt.execution, now=run.now)
    show(run.session, StepExecution, attempt.execution)
    return follower


def afresh(run: Run, workflow: WorkflowRow, step: StepDefinition) -> ExecutionRow | None:
    """Draft an execution for a workflow that has none open, from the cursor or with the signal that its step holds."""
    if step.removed:
        return proceed_after(run, workflow, step.name)
    last = newest_execution(run.session, workflow.id, step.name)
    if step.resumable and last is not None and is_under_way(last):
        execution = successor_of(last, workflow, due=run.now)
        execution.change(error_reattempts=0, death_reattempts=0)
        return execution
    signal_id = held_signal_id(run.session, workflow.id, step.name)
    execution = execution_of(workflow, step.name, due=run.now, signal_id=signal_id)
    if last is not None and last.deadline_passed:
        execution.note(deadline_passed=True)
    claim_again(run.session, execution, now=run.now)
    return execution
