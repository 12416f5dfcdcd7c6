"""Assertions on a workflow, as it is in the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from flask_geneva.definition.signal_matchers import could_match_name, describe
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.records.signal import Signal
from flask_geneva.records.step_execution import StepExecution
from flask_geneva.states import StepState
from flask_geneva.workflow import Workflow


def assert_step_executed(workflow: Workflow[Any], name: str, state: str = "completed") -> StepExecution:
    """Check that an execution of the step is in that state, and return the latest such."""
    history = workflow.execution_history
    found = [each for each in history if each.step_name == name and each.state == state]
    if not found:
        seen = ", ".join(f"{each.step_name}: {each.state}" for each in history) or "none"
        raise AssertionError(f"{workflow!r} has no {state} execution of step '{name}'. Its executions: {seen}")
    return found[-1]


def assert_workflow_state(workflow: Workflow[Any], state: str) -> None:
    """Check the workflow's state in the database."""
    session = current_runtime().session()
    session.flush()
    session.refresh(workflow)
    if workflow.state != state:
        raise AssertionError(f"{workflow!r} is {workflow.state}, not {state}: {workflow.explain()}")


def assert_waiting_for_signal(workflow: Workflow[Any], name: str | None = None) -> StepExecution:
    """Check that a step is parked, for a signal of that name where one is given; return its execution."""
    parked = [each for each in workflow.execution_history if each.state is StepState.WAITING]
    if not parked:
        raise AssertionError(f"{workflow!r} waits for no signal: {workflow.explain()}")
    step = workflow.steps.get(parked[-1].step_name)
    if name is not None and (step is None or not could_match_name(step.wait_for, name)):
        awaited = "nothing" if step is None else describe(step.wait_for)
        raise AssertionError(f"{workflow!r} is parked on '{parked[-1].step_name}' for {awaited}, not for '{name}'")
    return parked[-1]


def assert_signal_state(workflow: Workflow[Any], name: str, state: str) -> Signal:
    """Check the state of the newest signal of that name, and return it."""
    statement = (
        select(Signal)
        .where(Signal.workflow_id == workflow.id, Signal.name == name)
        .order_by(Signal.id.desc())
        .limit(1)
        .execution_options(populate_existing=True)
    )
    signal = current_runtime().session().execute(statement).scalar_one_or_none()
    if signal is None:
        raise AssertionError(f"{workflow!r} has no signal '{name}'")
    if signal.state != state:
        raise AssertionError(f"The newest signal '{name}' of {workflow!r} is {signal.state}, not {state}")
    return signal


def assert_cursor(workflow: Workflow[Any], value: Any) -> None:
    """Check the cursor of the newest execution of the chain, which goes on from there."""
    newest = _chain(workflow)[-1]
    if newest.cursor_value != value or type(newest.cursor_value) is not type(value):
        raise AssertionError(f"The cursor of {workflow!r} in {newest!r} is {newest.cursor_value!r}, not {value!r}")


def assert_iterations(workflow: Workflow[Any], n: int) -> None:
    """Check how many iterations the newest execution of the chain has made, of those that have begun."""
    chain = _chain(workflow)
    newest = next((each for each in reversed(chain) if each.started_at is not None), chain[-1])
    if newest.completed_iterations != n:
        raise AssertionError(f"{newest!r} of {workflow!r} has made {newest.completed_iterations} iterations, not {n}")


def _chain(workflow: Workflow[Any]) -> list[StepExecution]:
    """The executions of the newest resumable step, also when the one after it is scheduled already."""
    history = workflow.execution_history
    resumable = [each for each in history if (step := workflow.steps.get(each.step_name)) and step.resumable]
    if not resumable:
        raise AssertionError(f"{workflow!r} has no execution of a resumable step")
    return [each for each in resumable if each.step_name == resumable[-1].step_name]
