"""Drive a workflow inside a test: no Redis, no waiting, the real engine on the real database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import Session

from flask_geneva.definition.signal_matchers import describe
from flask_geneva.engine.executor import execute
from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import Runtime, current_runtime
from flask_geneva.engine.scheduling import execution_of, store
from flask_geneva.engine.transactions import lock_workflow, open_executions
from flask_geneva.errors import GenevaError, InvalidStateError, StepNotDefinedError
from flask_geneva.records.step_execution import ExecutionRow, StepExecution
from flask_geneva.records.transitions import move_execution
from flask_geneva.states import RUNNABLE_WORKFLOW_STATES, Outcome, StepState, WorkflowState
from flask_geneva.workflow import Workflow


class WaitingForSignal(GenevaError):
    """A helper was to drive a workflow whose step is parked; send the signal, or let its deadline pass."""


def speedrun(workflow: Workflow[Any], max_steps: int = 100, raise_errors: bool = True) -> None:
    """Run the workflow until it is finished, canceled or paused, ignoring waits. Commits.

    :raises WaitingForSignal: when it parks on a step.
    :raises AssertionError: when it has not ended after ``max_steps`` executions.
    """
    for _ in range(max_steps):
        if _drive(workflow, raise_errors, "speedrun") is None:
            return
    if workflow.is_ongoing and workflow.state is not WorkflowState.PAUSED:
        raise AssertionError(f"{workflow!r} has not ended after {max_steps} step executions: {workflow.explain()}")


def perform_next_step(workflow: Workflow[Any], raise_errors: bool = True) -> StepExecution | None:
    """Run the execution that comes next, whenever it is due, and return it; None when there is none. Commits."""
    return _drive(workflow, raise_errors, "perform_next_step")


def perform_step(workflow: Workflow[Any], name: str | None = None, raise_errors: bool = True) -> StepExecution | None:
    """Run the named step, also out of order and again; without a name the one that comes next. Commits.

    What was scheduled or parked is canceled first.
    """
    if name is None:
        return _drive(workflow, raise_errors, "perform_step")
    if name not in workflow.steps:
        steps = [step.name for step in workflow.steps.runnable]
        raise StepNotDefinedError(f"perform a step of {workflow!r}", type(workflow).__name__, name, steps)
    runtime = current_runtime()
    session = runtime.session()
    _put_at(runtime, session, workflow, name)
    return _drive(workflow, raise_errors, "perform_step")


def run_iterations(workflow: Workflow[Any], count: int, raise_errors: bool = True) -> StepExecution | None:
    """Let the resumable step that comes next make this many iterations, then stop it at its checkpoint. Commits.

    :raises InvalidStateError: when the step that comes next is not resumable.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"run_iterations: the count must be a positive integer, not {count!r}.")
    return _drive(workflow, raise_errors, "run_iterations", iteration_limit=count)


def expire_wait(workflow: Workflow[Any]) -> None:
    """Let the deadline of the parked step pass now; the next helper applies it. Commits."""
    runtime = current_runtime()
    session = runtime.session()
    execution = _parked(session, workflow)
    if execution is None or execution.deadline_at is None:
        raise AssertionError(f"{workflow!r} is not parked on a step that has a deadline: {workflow.explain()}")
    now = runtime.now()
    execution.change(deadline_at=now)
    row = lock_workflow(session, workflow.id)
    assert row is not None
    store(runtime, session, row, execution, now=now)
    session.commit()


def _drive(
    workflow: Workflow[Any], raise_errors: bool, helper: str, iteration_limit: int | None = None
) -> StepExecution | None:
    runtime = current_runtime()
    session = runtime.session()
    session.commit()
    execution = next(iter(open_executions(session, workflow.id)), None)
    session.rollback()
    if execution is None or workflow.state not in RUNNABLE_WORKFLOW_STATES:
        return None
    _refuse_to_spin(runtime, workflow, execution, helper)
    if iteration_limit is not None:
        _refuse_plain(workflow, execution, helper)
    run = Run(
        runtime,
        session,
        ignores_time=True,
        runs_ahead=False,
        ignores_limits=iteration_limit is None,
        iteration_limit=iteration_limit,
    )
    with _own_objects(session):
        execute(run, execution.id)
    if raise_errors and run.last_error is not None and workflow.state in (WorkflowState.PAUSED, WorkflowState.CANCELED):
        raise run.last_error
    return session.get(StepExecution, execution.id)


def _refuse_to_spin(runtime: Runtime, workflow: Workflow[Any], execution: ExecutionRow, helper: str) -> None:
    if execution.state is StepState.IN_PROGRESS:
        raise InvalidStateError(f"{helper}: step '{execution.step_name}' of {workflow!r} is in progress elsewhere.")
    if execution.state is not StepState.WAITING:
        return
    if execution.deadline_at is not None and execution.deadline_at <= runtime.now():
        return
    step = workflow.steps.get(execution.step_name)
    awaited = "a signal" if step is None else describe(step.wait_for)
    raise WaitingForSignal(
        f"{helper}: step '{execution.step_name}' of {workflow!r} is parked until {awaited} arrives. "
        f"Send it with workflow.signal(...), or let its deadline pass with expire_wait(workflow)."
    )


def _refuse_plain(workflow: Workflow[Any], execution: ExecutionRow, helper: str) -> None:
    step = workflow.steps.get(execution.step_name)
    if step is not None and not step.resumable and not step.removed:
        raise InvalidStateError(
            f"{helper}: step '{step.name}' of {workflow!r} comes next, and it is not resumable. "
            f"Run it with perform_next_step(workflow)."
        )


def _put_at(runtime: Runtime, session: Session, workflow: Workflow[Any], name: str) -> None:
    now = runtime.now()
    row = lock_workflow(session, workflow.id)
    if row is None or row.state not in RUNNABLE_WORKFLOW_STATES:
        raise InvalidStateError(f"Cannot perform step '{name}' of {workflow!r}: the workflow is {workflow.state}.")
    for stray in open_executions(session, workflow.id):
        move_execution(stray, StepState.CANCELED, now=now, outcome=Outcome.CANCELED)
        store(runtime, session, row, stray, now=now)
    store(runtime, session, row, execution_of(row, name, due=now), now=now)
    session.commit()


def _parked(session: Session, workflow: Workflow[Any]) -> ExecutionRow | None:
    rows = open_executions(session, workflow.id)
    return next((row for row in rows if row.state is StepState.WAITING), None)


@contextmanager
def _own_objects(session: Session) -> Iterator[None]:
    """Let the steps see fresh objects, as in a worker, and give the test's own objects back afterwards."""
    of_the_test = list(session)
    session.expunge_all()
    try:
        yield
    finally:
        session.rollback()
        session.expunge_all()
        for each in of_the_test:
            session.add(each)
        session.expire_all()
