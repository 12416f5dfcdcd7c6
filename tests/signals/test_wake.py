"""The sender's side: a signal wakes the step that is parked for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flask import Flask
from sqlalchemy import text, update

from flask_geneva import Workflow, step
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.records.tables import workflows
from flask_geneva.testing import assert_signal_state, assert_waiting_for_signal, perform_next_step, speedrun
from tests.engine.flows import reload, run_job, start
from tests.harness.models import Order, db, write_down
from tests.signals.flows import BuriedFlow, Ledger, PaidFlow, TwicePaidFlow, parked


class TimedFlow(Workflow[Order]):
    """Class, instance and step each say something about the job."""

    job_options = {"queue": "of the class", "timeout": 1}

    @step(wait_for="paid", job_options={"timeout": 3})
    def capture(self) -> None:
        """Do nothing."""


class UnwaitedFlow(Workflow[Order]):
    """As it is after the deploy that took the waiting away."""

    @step
    def capture(self) -> None:
        write_down(self)


class TwinFlow(Workflow[Order]):
    """Waits for any of two."""

    @step(wait_for=["paid", "captured"])
    def capture(self) -> None:
        write_down(self, self.received_signal.name)


def test_a_signal_wakes_the_parked_step(app: Flask) -> None:
    # SIG-44
    workflow = parked()
    before = workflow.execution_history[-1].job_id
    signal = workflow.signal("paid")
    db.session.commit()

    woken = workflow.execution_history[-1]

    assert (woken.state, woken.signal_id, woken.waiting_since) == ("scheduled", signal.id, None)
    assert abs(datetime.now(UTC) - woken.scheduled_for) < timedelta(seconds=60)
    assert woken.job_id != before
    assert (signal.state, signal.claimed, signal.consumed) == ("claimed", 1, 0)
    assert signal.claimed_at is not None
    assert (workflow.state, workflow.next_step_name) == ("ready", "capture")


def test_one_job_is_sent_with_the_merged_options(jobs: list[JobRequest]) -> None:
    # SIG-44
    order = Order()
    db.session.add(order)
    workflow = TimedFlow.create(hero=order, job_options={"queue": "of the instance", "description": "mine"})
    db.session.commit()
    perform_next_step(workflow)
    jobs.clear()

    workflow.signal("paid")
    db.session.commit()

    assert [dict(job.options) for job in jobs] == [{"queue": "of the instance", "description": "mine", "timeout": 3}]


def test_the_woken_step_runs_with_the_payload(app: Flask, ledger: Ledger) -> None:
    # SIG-45
    workflow = parked()
    signal = workflow.signal("paid", {"n": 1})

    speedrun(workflow)

    assert ledger(workflow) == ["reserve", "captured {'n': 1}", "shipped with None"]
    assert (reload(workflow).state, signal.state, signal.consumed) == ("finished", "consumed", 1)
    assert signal.consumed_at is not None


def test_a_signal_of_another_name_wakes_nobody(app: Flask) -> None:
    # SIG-46
    workflow = parked()

    for name in ("other", "Paid", "paid ", "páid"):
        workflow.signal(name)
        assert_signal_state(workflow, name, "pending")

    assert_waiting_for_signal(workflow, "paid")


def test_a_second_signal_is_buffered_while_the_first_is_claimed(app: Flask) -> None:
    # SIG-47
    workflow = parked()
    workflow.signal("paid", 1)
    second = workflow.signal("paid", 2)
    assert second.state == "pending"

    speedrun(workflow)

    assert workflow.state == "finished"
    assert [signal.state for signal in workflow.signals] == ["consumed", "pending"]


def test_of_several_parked_rows_the_oldest_is_woken(app: Flask) -> None:
    # SIG-48: the database allows one active row, so a second parked one, which nothing of ours writes, waits on.
    workflow = parked(TwicePaidFlow)
    columns = "workflow_id, step_name, state, scheduled_for, waiting_since, completed_iterations, error_reattempts"
    more = "death_reattempts, stalled_runs, created_at, updated_at"
    rows = f"SELECT {columns}, {more} FROM geneva_step_executions"
    db.session.execute(text(f"INSERT INTO geneva_step_executions ({columns}, {more}) {rows}"))

    workflow.signal("paid")
    db.session.commit()

    assert [each.state for each in workflow.execution_history] == ["scheduled", "waiting"]


def test_the_delivered_signal_is_attached_and_not_an_older_one(app: Flask, ledger: Ledger) -> None:
    # SIG-49
    workflow = start(TwinFlow)
    workflow.signal("unrelated")
    perform_next_step(workflow)
    db.session.execute(text("UPDATE geneva_signals SET name = 'paid'"))

    workflow.signal("captured")
    speedrun(workflow)

    assert ledger(workflow) == ["captured"]


def test_a_parked_step_that_is_gone_is_not_woken(app: Flask) -> None:
    # SIG-50: housekeeping or the operator releases it.
    workflow = parked(TwicePaidFlow)
    db.session.execute(text("UPDATE geneva_step_executions SET step_name = 'vanished'"))

    workflow.signal("paid")

    assert workflow.execution_history[-1].state == "waiting"
    assert_signal_state(workflow, "paid", "pending")


def test_a_parked_step_that_waits_no_more_is_not_woken(app: Flask) -> None:
    # SIG-50
    for workflow_class in (UnwaitedFlow, BuriedFlow):
        workflow_id = parked(TwicePaidFlow).id
        db.session.execute(text("UPDATE geneva_step_executions SET step_name = 'capture'"))
        db.session.execute(text(f"UPDATE geneva_workflows SET type = '{workflow_class.__name__}'"))
        db.session.commit()
        db.session.expunge_all()

        workflow = db.session.get_one(Workflow, workflow_id)
        workflow.signal("paid")

        assert workflow.execution_history[-1].state == "waiting"
        db.session.rollback()


def test_a_step_may_wait_for_any_of_several_names(app: Flask, ledger: Ledger) -> None:
    for name in ("paid", "captured"):
        workflow = parked(TwinFlow)
        workflow.signal(name)

        speedrun(workflow)

        assert ledger(workflow) == [name]


def test_a_wake_up_moves_nothing_else_of_the_workflow(app: Flask) -> None:
    workflow = parked(PaidFlow)
    reserve = workflow.execution_history[0]
    was = (reserve.state, reserve.outcome, reserve.updated_at)

    workflow.signal("paid")
    db.session.commit()

    after = workflow.execution_history[0]
    assert (after.state, after.outcome, after.updated_at) == was
    assert [each.step_name for each in workflow.execution_history] == ["reserve", "capture"]


def parked_before_a_deploy(jobs: list[JobRequest], class_name: str) -> tuple[int, int]:
    """A step that was parked when its class was another one; nothing was sent since. The ids of both rows."""
    workflow = parked(PaidFlow)
    ids = workflow.id, workflow.execution_history[-1].id
    db.session.execute(update(workflows).where(workflows.c.id == workflow.id).values(type=class_name))
    db.session.commit()
    db.session.expunge_all()
    jobs.clear()
    return ids


def test_a_signal_that_comes_where_the_class_is_not_known_has_a_worker_look(
    jobs: list[JobRequest], ledger: Ledger
) -> None:
    workflow_id, execution_id = parked_before_a_deploy(jobs, "KnownToWorkersOnly")
    db.session.get_one(Workflow, workflow_id).signal("paid")
    db.session.commit()

    (job,) = jobs
    db.session.execute(update(workflows).values(type="PaidFlow"))
    db.session.commit()
    db.session.expunge_all()
    run_job(job.execution_id)

    assert (job.execution_id, job.due) == (execution_id, None)
    assert ledger(db.session.get_one(Workflow, workflow_id)) == ["reserve", "captured {}"]


def test_a_worker_that_looks_in_vain_leaves_the_step_parked(jobs: list[JobRequest]) -> None:
    workflow_id, execution_id = parked_before_a_deploy(jobs, "PaidFlow")
    db.session.get_one(Workflow, workflow_id).signal("something else")
    db.session.commit()

    run_job(execution_id)

    assert_waiting_for_signal(db.session.get_one(Workflow, workflow_id), "paid")


def test_a_worker_that_looks_at_a_step_that_waits_no_more_runs_it(jobs: list[JobRequest], ledger: Ledger) -> None:
    workflow_id, execution_id = parked_before_a_deploy(jobs, "UnwaitedFlow")
    db.session.get_one(Workflow, workflow_id).signal("paid")
    db.session.commit()

    run_job(execution_id)

    assert ledger(db.session.get_one(Workflow, workflow_id)) == ["reserve", "capture"]
