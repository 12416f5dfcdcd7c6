"""Skip passes over the step that a workflow stands at, settles its signal, and schedules the next one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from flask_geneva import (
    IterableStep,
    StepNotDefinedError,
    Workflow,
    WorkflowNotDefinedError,
    events,
    removed_step,
    resumable_step,
    step,
)
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.records.tables import signals, step_executions, workflows
from flask_geneva.testing import assert_signal_state, perform_next_step, run_iterations, speedrun
from tests.engine.elsewhere import Ledger, Plan, nothing_written
from tests.engine.flows import boom, planned, reload, run_job, start, states
from tests.harness.models import Order, db, write_down


class SkippedFlow(Workflow[Order]):
    """Three steps, the second one tomorrow."""

    @step
    def one(self) -> None:
        write_down(self)
        planned("one", self)

    @step(wait=timedelta(days=1))
    def two(self) -> None:
        write_down(self)
        planned("two", self)

    @step
    def three(self) -> None:
        write_down(self)


class SkippedWaitFlow(Workflow[Order]):
    """Waits for a signal, then does one thing more."""

    @step(wait_for="go")
    def one(self) -> None:
        write_down(self)
        planned("one", self)

    @step
    def two(self) -> None:
        write_down(self)


class SkippedChainFlow(Workflow[Order]):
    """A resumable step with a signal."""

    @resumable_step(wait_for="go")
    def one(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(5)):
            planned(f"at {number}", self)

    @step
    def two(self) -> None:
        write_down(self)


class TrailingFlow(Workflow[Order]):
    """Ends in a gravestone."""

    @step
    def one(self) -> None:
        write_down(self)

    gone = removed_step()


def counters() -> list[tuple[int, int]]:
    return [tuple(row) for row in db.session.execute(select(signals.c.claimed, signals.c.consumed))]


def test_skips_walk_through_the_steps_and_the_last_one_finishes(jobs: list[JobRequest], ledger: Ledger) -> None:
    # OPS-50, OPS-51, OPS-59
    workflow = start(SkippedFlow)
    del jobs[:]

    workflow.skip()
    db.session.commit()
    first, second = workflow.execution_history
    assert (first.state, first.outcome, first.finished_at) == ("skipped", "skipped", first.skipped_at)
    assert second.scheduled_for - second.created_at == timedelta(days=1)
    assert [(job.execution_id, job.due) for job in jobs] == [(second.id, second.scheduled_for)]

    workflow.skip()
    workflow.skip()
    db.session.commit()
    assert (workflow.state, workflow.next_step_name, workflow.current_step_name) == ("finished", None, None)
    assert workflow.transitioned_at is not None
    assert states(workflow) == [(name, "skipped", "skipped") for name in ("one", "two", "three")]
    assert ledger(workflow) == []


def test_a_gravestone_is_not_where_a_skip_lands(app: Flask) -> None:
    workflow = start(TrailingFlow)

    workflow.skip()

    assert (workflow.state, states(workflow)) == ("finished", [("one", "skipped", "skipped")])


def test_the_job_of_a_skipped_execution_does_nothing(app: Flask, ledger: Ledger) -> None:
    workflow = start(SkippedFlow)
    skipped = workflow.execution_history[0].id
    workflow.skip()
    db.session.commit()

    run_job(skipped)

    assert states(reload(workflow)) == [("one", "skipped", "skipped"), ("two", "scheduled", None)]
    assert ledger(workflow) == []


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_parked_step_is_skipped_and_buffered_signals_are_left_alone(app: Flask, is_paused: bool) -> None:
    # OPS-52
    workflow = start(SkippedWaitFlow)
    perform_next_step(workflow)
    if is_paused:
        workflow.pause()
    workflow.signal("other")

    workflow.skip()

    assert states(workflow) == [("one", "skipped", "skipped"), ("two", "scheduled", None)]
    assert workflow.state == "ready"
    assert_signal_state(workflow, "other", "pending")


def test_a_signal_that_was_buffered_during_the_pause_stays_pending(app: Flask) -> None:
    # OPS-52
    workflow = start(SkippedWaitFlow)
    perform_next_step(workflow)
    workflow.pause()
    workflow.signal("go")

    workflow.skip()

    assert_signal_state(workflow, "go", "pending")


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_woken_step_is_skipped_with_its_signal(app: Flask, is_paused: bool) -> None:
    # OPS-53
    workflow = start(SkippedWaitFlow)
    perform_next_step(workflow)
    signal = workflow.signal("go")
    if is_paused:
        workflow.pause()

    workflow.skip()

    assert states(workflow) == [("one", "skipped", "skipped"), ("two", "scheduled", None)]
    assert (signal.state, signal.claimed, signal.consumed) == ("consumed", 1, 1)
    assert signal.consumed_at is not None


def test_after_a_failure_the_failed_row_stays_and_the_workflow_goes_on(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # OPS-54
    plan["one"] = boom
    workflow = start(SkippedFlow)
    perform_next_step(workflow, raise_errors=False)

    workflow.skip()

    assert states(workflow) == [("one", "failed", "failed"), ("two", "scheduled", None)]
    assert (workflow.state, workflow.transitioned_at, workflow.next_step_name) == ("ready", None, "two")
    speedrun(workflow)
    assert ledger(workflow) == ["two", "three"]


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_signal_of_a_failed_step_is_settled(app: Flask, plan: Plan, rounds: int) -> None:
    # OPS-55, OPS-57, B-13
    plan["one"] = boom
    workflow = start(SkippedWaitFlow)
    workflow.signal("go")
    perform_next_step(workflow, raise_errors=False)
    for _ in range(rounds - 1):
        workflow.resume()
        perform_next_step(workflow, raise_errors=False)

    workflow.skip()

    assert_signal_state(workflow, "go", "consumed")
    assert counters() == [(rounds, 1)]
    assert states(workflow) == [("one", "failed", "failed")] * rounds + [("two", "scheduled", None)]


def test_the_signal_of_a_step_that_paused_itself_is_settled(app: Flask, plan: Plan) -> None:
    # B-13
    plan["one"] = lambda workflow: workflow.pause()
    workflow = start(SkippedWaitFlow)
    workflow.signal("go")
    perform_next_step(workflow)

    workflow.skip()

    assert_signal_state(workflow, "go", "consumed")
    assert states(workflow)[0] == ("one", "canceled", "canceled")


def test_the_signal_of_a_row_whose_job_came_during_the_pause_is_settled(app: Flask) -> None:
    # B-13
    workflow = start(SkippedWaitFlow)
    perform_next_step(workflow)
    workflow.signal("go")
    workflow.pause()
    db.session.commit()
    run_job(workflow.execution_history[-1].id)

    reload(workflow).skip()

    assert_signal_state(workflow, "go", "consumed")


@pytest.mark.parametrize("how", ["pause inside", "failure", "pause between two chunks", "job during the pause"])
def test_the_signal_of_a_resumable_chain_is_settled(app: Flask, plan: Plan, how: str) -> None:
    # B-13
    if how in ("pause inside", "failure"):
        plan["at 2"] = boom if how == "failure" else lambda workflow: workflow.pause()
    workflow = start(SkippedChainFlow)
    workflow.signal("go")
    run_iterations(workflow, 3, raise_errors=False)
    if workflow.state == "ready":
        workflow.pause()
        db.session.commit()
    if how == "job during the pause":
        run_job(workflow.execution_history[-1].id)

    reload(workflow).skip()

    assert_signal_state(workflow, "go", "consumed")
    assert states(workflow)[-1] == ("two", "scheduled", None)


def test_a_row_that_a_pause_kept_is_marked_as_skipped(app: Flask) -> None:
    # OPS-56
    workflow = start(SkippedFlow)
    workflow.pause()

    workflow.skip()

    assert states(workflow) == [("one", "skipped", "skipped"), ("two", "scheduled", None)]
    assert (workflow.state, workflow.transitioned_at) == ("ready", None)


def test_after_any_number_of_failures_a_skip_advances(app: Flask, plan: Plan) -> None:
    # OPS-57
    plan["one"] = boom
    workflow = start(SkippedFlow)
    perform_next_step(workflow, raise_errors=False)
    for _ in range(2):
        workflow.resume()
        perform_next_step(workflow, raise_errors=False)

    workflow.skip()

    assert [state for _, state, _ in states(workflow)] == ["failed", "failed", "failed", "scheduled"]
    assert workflow.next_step_name == "two"


@pytest.mark.parametrize("is_canceled_by_its_job", [False, True])
def test_on_the_last_step_of_a_paused_workflow_it_finishes_and_leaves_nothing_open(
    app: Flask, is_canceled_by_its_job: bool
) -> None:
    # OPS-58, B-14
    workflow = start(SkippedWaitFlow)
    workflow.skip()
    workflow.pause()
    db.session.commit()
    if is_canceled_by_its_job:
        run_job(workflow.execution_history[-1].id)

    reload(workflow).skip()

    assert (workflow.state, workflow.next_step_name) == ("finished", None)
    assert not any(each.is_open for each in workflow.execution_history)


def test_a_finish_by_skip_is_told_of(app: Flask) -> None:
    workflow, told = start(TrailingFlow), []

    def listen(sender: Flask, **facts: Any) -> None:
        told.append(facts["workflow_id"])

    with events.workflow_finished.connected_to(listen):
        workflow.skip()
        assert told == []
        db.session.commit()

    assert told == [workflow.id]


@pytest.mark.parametrize("state", ["ready", "paused", "paused without a row"])
def test_a_vanished_step_is_refused_with_nothing_written(app: Flask, state: str) -> None:
    # OPS-60, B-03
    workflow = start(SkippedFlow)
    if state != "ready":
        workflow.pause()
        db.session.commit()
    if state == "paused without a row":
        run_job(workflow.execution_history[0].id)
    db.session.execute(update(step_executions).values(step_name="vanished"))
    db.session.execute(update(workflows).values(next_step_name="vanished"))
    db.session.commit()

    with nothing_written(), pytest.raises(StepNotDefinedError) as refusal:
        reload(workflow).skip()

    assert str(refusal.value).startswith(
        f"Cannot skip SkippedFlow #{workflow.id}: step 'vanished' is not defined in SkippedFlow. "
        f"The steps defined are: one, two, three. "
    )
    assert workflow.state == state.split()[0]


def test_a_vanished_class_is_refused_with_nothing_written(app: Flask) -> None:
    workflow_id = start(SkippedFlow).id
    db.session.execute(update(workflows).values(type="Vanished"))
    db.session.commit()
    db.session.expunge_all()

    with nothing_written(), pytest.raises(WorkflowNotDefinedError, match=f"Cannot skip workflow #{workflow_id}"):
        db.session.get_one(Workflow, workflow_id).skip()


def test_a_paused_workflow_that_stands_at_a_gravestone_can_be_skipped_over_it(app: Flask) -> None:
    workflow = start(TrailingFlow)
    workflow.pause()
    db.session.execute(update(step_executions).values(step_name="gone"))
    db.session.execute(update(workflows).values(next_step_name="gone"))
    db.session.commit()

    reload(workflow).skip()

    assert (workflow.state, states(workflow)) == ("finished", [("gone", "skipped", "skipped")])
