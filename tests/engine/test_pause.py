"""Pause stops a workflow before its next step and touches nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from flask import Flask
from sqlalchemy import update

from flask_geneva import Workflow, events, step
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.records.tables import signals, step_executions
from flask_geneva.testing import assert_signal_state, perform_next_step
from tests.engine.elsewhere import Ledger, all_rows
from tests.engine.flows import reload, run_job, start, states
from tests.harness.models import Order, db, write_down


class PausedFlow(Workflow[Order]):
    """Begins at once, goes on tomorrow, then waits for a signal."""

    @step
    def one(self) -> None:
        write_down(self)

    @step(wait=timedelta(days=1))
    def two(self) -> None:
        write_down(self)

    @step(wait_for="go")
    def three(self) -> None:
        write_down(self)


def at_step(number: int) -> Workflow[Any]:
    workflow = start(PausedFlow)
    for _ in range(number - 1):
        perform_next_step(workflow)
    return workflow


def rows_of_executions() -> list[Any]:
    return list(db.session.execute(step_executions.select().order_by(step_executions.c.id)).mappings())


def test_a_future_execution_stays_as_it_is(app: Flask) -> None:
    # OPS-18, OPS-21
    workflow = at_step(2)
    before = rows_of_executions()

    workflow.pause()

    assert rows_of_executions() == before
    kept = workflow.execution_history[-1]
    assert (kept.state, kept.outcome) == ("scheduled", None)
    assert kept.scheduled_for - kept.created_at == timedelta(days=1)
    assert workflow.state == "paused"
    assert workflow.transitioned_at is not None
    assert (workflow.current_step_name, workflow.next_step_name) == (None, "two")


def test_an_overdue_execution_stays_as_it_is(app: Flask) -> None:
    # OPS-19
    workflow = at_step(2)
    execution = workflow.execution_history[-1]
    long_ago = execution.scheduled_for - timedelta(days=9)
    db.session.execute(update(step_executions).values(scheduled_for=long_ago))
    before = rows_of_executions()

    workflow.pause()

    assert rows_of_executions() == before


def test_a_fresh_workflow_keeps_its_first_execution(app: Flask) -> None:
    # OPS-20, OPS-21
    workflow = at_step(1)

    workflow.pause()

    assert states(workflow) == [("one", "scheduled", None)]
    assert workflow.started_at is None


def test_a_parked_execution_stays_parked(app: Flask) -> None:
    # OPS-22
    workflow = at_step(3)
    perform_next_step(workflow)
    before = rows_of_executions()

    workflow.pause()

    assert rows_of_executions() == before
    assert states(workflow)[-1] == ("three", "waiting", None)


def test_a_woken_execution_stays_scheduled_with_its_signal(app: Flask) -> None:
    # OPS-23
    workflow = at_step(3)
    perform_next_step(workflow)
    signal = workflow.signal("go")
    before = rows_of_executions()

    workflow.pause()

    assert rows_of_executions() == before
    kept = workflow.execution_history[-1]
    assert (kept.state, kept.signal_id) == ("scheduled", signal.id)
    assert_signal_state(workflow, "go", "claimed")


def test_a_woken_execution_whose_job_comes_during_the_pause_keeps_its_signal_claimed(
    app: Flask, ledger: Ledger
) -> None:
    # OPS-23, OPS-24
    workflow = at_step(3)
    perform_next_step(workflow)
    workflow.signal("go")
    workflow.pause()
    db.session.commit()

    run_job(workflow.execution_history[-1].id)

    assert states(reload(workflow))[-1] == ("three", "canceled", "canceled")
    assert_signal_state(workflow, "go", "claimed")
    workflow.resume()
    perform_next_step(workflow)
    assert ledger(workflow) == ["one", "two", "three"]
    assert_signal_state(workflow, "go", "consumed")
    counters = db.session.execute(signals.select()).mappings().one()
    assert (counters["claimed"], counters["consumed"]) == (2, 1)


def test_a_job_that_comes_during_the_pause_runs_nothing(app: Flask, ledger: Ledger) -> None:
    # OPS-24, EXE-09
    workflow = at_step(1)
    workflow.pause()
    db.session.commit()

    run = run_job(workflow.execution_history[0].id)

    (execution,) = reload(workflow).execution_history
    assert (execution.state, execution.outcome, workflow.state) == ("canceled", "canceled", "paused")
    assert execution.canceled_at == execution.finished_at is not None
    assert run.error_to_report is None
    assert ledger(workflow) == []


def test_a_second_job_during_the_pause_changes_nothing_more(app: Flask) -> None:
    workflow = at_step(1)
    workflow.pause()
    db.session.commit()
    execution_id = workflow.execution_history[0].id
    run_job(execution_id)
    before = all_rows()

    run_job(execution_id)

    db.session.rollback()
    assert all_rows() == before


def test_a_job_for_a_parked_step_during_the_pause_leaves_it_parked(app: Flask) -> None:
    workflow = at_step(3)
    perform_next_step(workflow)
    workflow.pause()
    db.session.commit()

    run_job(workflow.execution_history[-1].id)

    assert states(reload(workflow))[-1] == ("three", "waiting", None)


def test_a_pause_sends_no_job(jobs: list[JobRequest]) -> None:
    workflow = at_step(1)
    db.session.commit()
    del jobs[:]

    workflow.pause()
    db.session.commit()

    assert jobs == []


def test_a_pause_is_told_of_after_the_commit(app: Flask) -> None:
    workflow, told = at_step(1), []

    def listen(sender: Flask, **facts: Any) -> None:
        told.append((facts["workflow_id"], facts["workflow_class"]))

    with events.workflow_paused.connected_to(listen):
        workflow.pause()
        assert told == []
        db.session.commit()
        assert told == [(workflow.id, "PausedFlow")]
