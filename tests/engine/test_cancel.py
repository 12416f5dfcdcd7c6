"""Cancel ends a workflow with whatever stands, and frees its place."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from flask_geneva import InvalidStateError, Workflow, WorkflowAlreadyOngoing, events, step
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.testing import assert_signal_state, perform_next_step
from tests.engine.elsewhere import Ledger, Plan, nothing_written
from tests.engine.flows import boom, planned, reload, run_job, start, states
from tests.harness.models import Order, db, write_down


class CanceledFlow(Workflow[Order]):
    """Begins at once, goes on tomorrow, then waits for a signal."""

    @step
    def one(self) -> None:
        write_down(self)
        planned("one", self)

    @step(wait=timedelta(days=1))
    def two(self) -> None:
        write_down(self)

    @step(wait_for="go")
    def three(self) -> None:
        write_down(self)


def at_step(number: int) -> Workflow[Any]:
    workflow = start(CanceledFlow)
    for _ in range(number - 1):
        perform_next_step(workflow)
    return workflow


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_what_is_scheduled_is_canceled_with_the_workflow(jobs: list[JobRequest], number: int, is_paused: bool) -> None:
    # OPS-61, OPS-62, B-39
    workflow = at_step(number)
    if is_paused:
        workflow.pause()
        db.session.commit()
    del jobs[:]

    workflow.cancel()
    db.session.commit()

    last = workflow.execution_history[-1]
    assert (last.state, last.outcome) == ("canceled", "canceled")
    assert last.canceled_at == last.finished_at == workflow.transitioned_at is not None
    assert (workflow.state, workflow.current_step_name) == ("canceled", None)
    assert jobs == []


def test_a_workflow_that_a_failure_paused_is_canceled_and_the_failed_row_stays(app: Flask, plan: Plan) -> None:
    # OPS-63
    plan["one"] = boom
    workflow = start(CanceledFlow)
    perform_next_step(workflow, raise_errors=False)

    workflow.cancel()

    assert (workflow.state, states(workflow)) == ("canceled", [("one", "failed", "failed")])


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_parked_step_is_canceled_and_signals_keep_their_state(app: Flask, is_paused: bool) -> None:
    # OPS-64
    workflow = at_step(3)
    perform_next_step(workflow)
    workflow.signal("other")
    if is_paused:
        workflow.pause()

    workflow.cancel()

    assert states(workflow)[-1] == ("three", "canceled", "canceled")
    assert_signal_state(workflow, "other", "pending")


def test_the_signal_of_a_woken_step_stays_claimed(app: Flask) -> None:
    # OPS-64
    workflow = at_step(3)
    perform_next_step(workflow)
    workflow.signal("go")

    workflow.cancel()

    assert_signal_state(workflow, "go", "claimed")


@pytest.mark.parametrize("verb", ["pause", "resume", "skip", "cancel"])
def test_nothing_can_be_done_to_it_afterwards(app: Flask, verb: str) -> None:
    # OPS-65
    workflow = at_step(1)
    workflow.cancel()
    db.session.commit()

    with nothing_written(), pytest.raises(InvalidStateError, match=f"Cannot {verb} .* is canceled"):
        getattr(workflow, verb)()


def test_the_job_of_a_canceled_workflow_does_nothing(app: Flask, ledger: Ledger) -> None:
    workflow = at_step(1)
    workflow.cancel()
    db.session.commit()

    run = run_job(workflow.execution_history[0].id)

    assert states(reload(workflow)) == [("one", "canceled", "canceled")]
    assert (run.error_to_report, ledger(workflow)) == (None, [])


def test_the_hero_may_have_another_one_afterwards(app: Flask) -> None:
    # OPS-66
    workflow = at_step(1)
    hero = workflow.hero
    with pytest.raises(WorkflowAlreadyOngoing):
        CanceledFlow.create(hero=hero)

    workflow.cancel()
    successor = CanceledFlow.create(hero=hero)
    db.session.commit()

    assert successor.state == "ready"


def test_a_vanished_step_or_class_can_be_canceled(app: Flask) -> None:
    # MIS-05, MIS-06
    for column, value in ((step_executions.c.step_name, "vanished"), (workflows.c.type, "Vanished")):
        workflow_id = at_step(1).id
        db.session.execute(update(column.table).values({column: value}))
        db.session.commit()
        db.session.expunge_all()
        workflow = db.session.execute(select(Workflow).where(Workflow.id == workflow_id)).scalar_one()

        workflow.cancel()
        db.session.commit()

        assert (workflow.state, workflow.execution_history[-1].state) == ("canceled", "canceled")


def test_a_cancellation_is_told_of_after_the_commit(app: Flask) -> None:
    workflow, told = at_step(1), []

    def listen(sender: Flask, **facts: Any) -> None:
        told.append(facts["workflow_id"])

    with events.workflow_canceled.connected_to(listen):
        workflow.cancel()
        db.session.rollback()
        workflow.cancel()
        assert told == []
        db.session.commit()

    assert told == [workflow.id]
