"""What becomes of a signal depends on the state that its workflow has under the lock."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from flask_geneva import Workflow, WorkflowNotOngoing
from flask_geneva.testing import assert_signal_state, speedrun
from tests.engine.elsewhere import nothing_written, press
from tests.engine.flows import start
from tests.harness.models import db
from tests.signals.flows import Ledger, PaidFlow, TwicePaidFlow, parked


def ended(state: str) -> Workflow[Any]:
    workflow = start(PaidFlow)
    workflow.signal("paid", {"n": 1}, idempotency_key="known")
    speedrun(workflow) if state == "finished" else workflow.cancel()
    db.session.commit()
    return workflow


@pytest.mark.parametrize("state", ["finished", "canceled"])
def test_an_ended_workflow_takes_no_signal(app: Flask, state: str) -> None:
    # SIG-19, SIG-20
    workflow = ended(state)

    with nothing_written(), pytest.raises(WorkflowNotOngoing, match=f"the workflow is {state}") as refused:
        workflow.signal("paid")

    assert (refused.value.workflow_id, refused.value.state, refused.value.signal_name) == (workflow.id, state, "paid")


@pytest.mark.parametrize("state", ["finished", "canceled"])
def test_an_ended_workflow_knows_what_it_has_got(app: Flask, state: str) -> None:
    # SIG-21
    workflow = ended(state)

    with nothing_written():
        again = workflow.signal("paid", {"n": 1}, idempotency_key="known")

    assert (again.duplicate_delivery, again.id) == (True, workflow.signals[0].id)


@pytest.mark.parametrize(("name", "key"), [("paid", "new"), ("other", "known"), ("paid", None)])
def test_an_ended_workflow_refuses_what_it_has_not_got(app: Flask, name: str, key: str | None) -> None:
    # SIG-22
    workflow = ended("finished")

    with nothing_written(), pytest.raises(WorkflowNotOngoing):
        workflow.signal(name, idempotency_key=key)


def test_the_callers_transaction_goes_on_after_a_refusal(app: Flask) -> None:
    workflow, other = ended("finished"), start(PaidFlow)

    with pytest.raises(WorkflowNotOngoing):
        workflow.signal("paid")
    other.signal("paid")
    db.session.commit()

    assert_signal_state(other, "paid", "pending")


def test_a_paused_workflow_buffers(app: Flask) -> None:
    # SIG-23
    workflow = parked()
    workflow.pause()
    db.session.commit()
    before = workflow.execution_history[-1]
    was = (before.state, before.waiting_since, before.signal_id, before.job_id)

    workflow.signal("paid")

    after = workflow.execution_history[-1]
    assert (after.state, after.waiting_since, after.signal_id, after.job_id) == was
    assert_signal_state(workflow, "paid", "pending")


def test_a_performing_workflow_buffers(app: Flask, ledger: Ledger) -> None:
    # SIG-24
    workflow = parked(TwicePaidFlow, state="reattempt")
    workflow.signal("paid", 1)
    db.session.execute(text("UPDATE geneva_workflows SET state = 'performing'"))
    db.session.execute(text("UPDATE geneva_step_executions SET state = 'in_progress'"))
    db.session.commit()

    workflow.signal("paid", 2)

    assert [signal.state for signal in workflow.signals] == ["claimed", "pending"]
    assert [each.state for each in workflow.execution_history] == ["in_progress"]


def test_what_counts_is_the_state_under_the_lock(app: Flask) -> None:
    # SIG-25
    workflow = parked()
    assert workflow.state == "ready"
    db.session.rollback()
    press(workflow.id, "cancel")

    with pytest.raises(WorkflowNotOngoing, match="the workflow is canceled"):
        workflow.signal("paid")


def test_a_snapshot_does_not_hide_the_state_under_the_lock(app: Flask) -> None:
    # SIG-25: on some databases a transaction that has read sees what was then, and must not decide by it.
    workflow = parked()
    assert workflow.state == "ready"
    press(workflow.id, "pause") if db.engine.dialect.name != "sqlite" else workflow.pause()

    workflow.signal("paid")

    assert_signal_state(workflow, "paid", "pending")
    assert workflow.execution_history[-1].state == "waiting"


def test_a_workflow_of_a_class_that_is_gone_buffers(app: Flask) -> None:
    # SIG-26
    workflow_id = parked().id
    db.session.execute(text("UPDATE geneva_workflows SET type = 'Vanished'"))
    db.session.commit()
    db.session.expunge_all()
    workflow = db.session.get_one(Workflow, workflow_id)

    signal = workflow.signal("paid")

    assert (type(workflow), signal.state) == (Workflow, "pending")
    assert workflow.execution_history[-1].state == "waiting"
