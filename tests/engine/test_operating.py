"""What operators do from outside, and what jobs and queues have to do with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, text

from flask_geneva import (
    InvalidStateError,
    SignalMatcher,
    StepNotDefinedError,
    Workflow,
    WorkflowNotDefinedError,
    removed_step,
    step,
)
from flask_geneva.testing import assert_signal_state, perform_next_step, speedrun
from tests.engine.flows import PlainFlow, PlannedFlow, boom, policy_flow, reload, run_job, start, states
from tests.harness.models import Order, db, write_down

Plan = dict[str, Callable[..., Any]]
Ledger = Callable[[Any], list[str]]


class ParkedFlow(Workflow[Order]):
    """Waits for a signal, then does one thing more."""

    @step(wait_for=SignalMatcher("go"))
    def one(self) -> None:
        write_down(self)
        if self.hero.state == "broken":
            boom()

    @step
    def two(self) -> None:
        write_down(self)


class QueuedFlow(Workflow[Order]):
    """Says on which queues its jobs go."""

    job_options = {"queue": "class", "timeout": 70}

    @step
    def one(self) -> None:
        """Do nothing."""

    @step(job_options={"queue": "step"}, wait=timedelta(hours=1))
    def two(self) -> None:
        """Do nothing."""


def job_of(app: Flask, workflow: Workflow[Any]) -> Any:
    from rq.job import Job

    return Job.fetch(workflow.execution_history[-1].job_id, connection=app.extensions["geneva"].queue.redis)


def test_pause_keeps_an_overdue_row_and_resume_runs_it(app: Flask, ledger: Ledger) -> None:
    # OPS-19 to OPS-21, OPS-26, OPS-39
    workflow = start(PlainFlow)
    db.session.execute(text("UPDATE geneva_step_executions SET scheduled_for = '2020-01-01 00:00:00'"))
    db.session.commit()

    workflow.pause()
    (kept,) = workflow.execution_history
    assert (kept.state, kept.outcome, kept.scheduled_for.year) == ("scheduled", None, 2020)
    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow) == ["one", "two"]
    assert workflow.execution_history[0].id == kept.id


def test_a_row_whose_job_came_during_the_pause_is_replaced(app: Flask, ledger: Ledger) -> None:
    # OPS-24, OPS-27
    workflow = start(PlainFlow)
    workflow.pause()
    db.session.commit()
    run_job(workflow.step_executions[0].id)

    workflow = reload(workflow)
    workflow.resume()
    speedrun(workflow)

    assert states(workflow)[:2] == [("one", "canceled", "canceled"), ("one", "completed", "success")]
    assert ledger(workflow) == ["one", "two"]


def test_resume_after_a_failure_runs_the_failed_step_at_once(app: Flask, plan: Plan) -> None:
    # OPS-29, OPS-30, OPS-36, OPS-40
    workflow = start(PlannedFlow)
    perform_next_step(workflow)
    plan["two"] = boom
    perform_next_step(workflow, raise_errors=False)

    workflow.resume()

    assert states(workflow)[1:] == [("two", "failed", "failed"), ("two", "scheduled", None)]
    retry = workflow.execution_history[-1]
    assert retry.scheduled_for - retry.created_at < timedelta(seconds=1)
    assert (workflow.state, workflow.next_step_name, workflow.transitioned_at) == ("ready", "two", None)


def test_resume_lets_a_parked_step_meet_the_signal_that_came_meanwhile(app: Flask, ledger: Ledger) -> None:
    # OPS-22, OPS-31, SIG-23, SIG-85
    workflow = start(ParkedFlow)
    perform_next_step(workflow)
    workflow.pause()
    workflow.signal("go")
    assert_signal_state(workflow, "go", "pending")

    workflow.resume()

    assert workflow.current_execution is not None
    assert workflow.current_execution.state == "scheduled"
    speedrun(workflow)
    assert ledger(workflow) == ["one", "two"]


def test_resume_without_a_signal_leaves_the_step_parked(app: Flask) -> None:
    # OPS-32
    workflow = start(ParkedFlow)
    perform_next_step(workflow)
    workflow.pause()

    workflow.resume()

    assert states(workflow) == [("one", "waiting", None)]
    assert workflow.state == "ready"


def test_resume_at_cancels_what_stands_and_goes_where_it_is_told(app: Flask, ledger: Ledger) -> None:
    # OPS-40 to OPS-42, OPS-46 to OPS-48
    workflow = start(PlannedFlow)
    perform_next_step(workflow)
    workflow.pause()

    workflow.resume_at("one")

    assert states(workflow)[1:] == [("two", "canceled", "canceled"), ("one", "scheduled", None)]
    assert (workflow.current_step_name, workflow.transitioned_at) == (None, None)
    perform_next_step(workflow)
    assert ledger(workflow) == ["one", "one"]


def test_resume_at_leaves_a_claimed_signal_claimed(app: Flask) -> None:
    # OPS-49
    workflow = start(ParkedFlow, state="broken")
    workflow.signal("go")
    perform_next_step(workflow, raise_errors=False)

    workflow.resume_at("two")
    speedrun(workflow)

    assert workflow.state == "finished"
    assert_signal_state(workflow, "go", "claimed")


def test_skip_settles_the_signal_of_the_step_it_passes_over(app: Flask) -> None:
    # OPS-53, OPS-55, SIG-87, SIG-88
    woken = start(ParkedFlow)
    perform_next_step(woken)
    woken.signal("go")
    woken.skip()
    assert_signal_state(woken, "go", "consumed")

    failed = start(ParkedFlow, state="broken")
    failed.signal("go")
    perform_next_step(failed, raise_errors=False)
    failed.skip()

    assert_signal_state(failed, "go", "consumed")
    assert states(failed) == [("one", "failed", "failed"), ("two", "scheduled", None)]


def test_skip_of_a_parked_step_leaves_signals_alone(app: Flask) -> None:
    # OPS-52, SIG-86
    workflow = start(ParkedFlow)
    perform_next_step(workflow)
    workflow.signal("other")

    workflow.skip()

    assert states(workflow) == [("one", "skipped", "skipped"), ("two", "scheduled", None)]
    assert_signal_state(workflow, "other", "pending")


def test_skip_marks_a_row_that_a_pause_preserved(app: Flask) -> None:
    # OPS-56, OPS-57, OPS-59
    workflow = start(PlannedFlow)
    workflow.pause()

    workflow.skip()

    assert states(workflow) == [("one", "skipped", "skipped"), ("two", "scheduled", None)]
    waiting = workflow.execution_history[-1]
    assert waiting.scheduled_for - waiting.created_at > timedelta(minutes=59)


def test_skip_of_the_last_step_of_a_paused_workflow_leaves_nothing_open(app: Flask) -> None:
    # OPS-58, B-14
    workflow = start(PlainFlow)
    perform_next_step(workflow)
    workflow.pause()

    workflow.skip()

    assert workflow.state == "finished"
    assert states(workflow)[-1] == ("two", "skipped", "skipped")


@pytest.mark.parametrize("verb", ["skip", "resume"])
def test_a_vanished_step_is_refused_and_nothing_is_written(app: Flask, verb: str) -> None:
    # OPS-37, OPS-60, MIS-05, MIS-08, B-02, B-03
    workflow = start(PlainFlow)
    workflow.pause()
    db.session.execute(text("UPDATE geneva_step_executions SET step_name = 'vanished'"))
    db.session.execute(text("UPDATE geneva_workflows SET next_step_name = 'vanished'"))
    db.session.commit()

    with pytest.raises(StepNotDefinedError, match=r"'vanished' is not defined .* one, two\. .*resume_at.*removed_step"):
        getattr(workflow, verb)()

    assert reload(workflow).state == "paused"
    workflow.resume_at("two")
    speedrun(workflow)
    assert workflow.state == "finished"


def test_a_vanished_step_pauses_its_workflow_whatever_the_policy(app: Flask) -> None:
    # MIS-01 to MIS-04
    workflow = start(policy_flow("cancel"))
    db.session.execute(text("UPDATE geneva_step_executions SET step_name = 'vanished'"))
    db.session.commit()

    run = run_job(workflow.step_executions[0].id)

    failed = reload(workflow).execution_history[0]
    assert (failed.state, failed.outcome, workflow.state) == ("failed", "failed", "paused")
    assert failed.error_class_name == "StepNotDefinedError"
    assert isinstance(run.error_to_report, StepNotDefinedError)


def test_a_vanished_class_cannot_be_resumed_but_canceled(app: Flask) -> None:
    workflow = start(PlainFlow)
    workflow.pause()
    db.session.execute(text("UPDATE geneva_workflows SET type = 'Vanished'"))
    db.session.commit()
    db.session.expunge_all()
    loaded = db.session.scalars(select(Workflow)).one()

    with pytest.raises(WorkflowNotDefinedError, match="'Vanished'"):
        loaded.resume()

    loaded.cancel()
    assert loaded.state == "canceled"


def test_cancel_takes_what_a_pause_preserved_along(app: Flask) -> None:
    # OPS-61 to OPS-65, SIG-89
    workflow = start(ParkedFlow)
    perform_next_step(workflow)
    workflow.signal("other")
    workflow.pause()

    workflow.cancel()

    assert states(workflow) == [("one", "canceled", "canceled")]
    assert workflow.execution_history[0].finished_at is not None
    assert_signal_state(workflow, "other", "pending")


def test_a_stale_object_is_judged_by_the_row(app: Flask) -> None:
    # OPS-05, EXE-17, EXE-18, EXE-19
    workflow = start(PlainFlow)
    assert workflow.state == "ready"
    with db.engine.begin() as other:
        db.session.rollback()
        other.execute(text("UPDATE geneva_workflows SET state = 'finished'"))

    with pytest.raises(InvalidStateError, match="the workflow is finished"):
        workflow.pause()


@pytest.mark.databases("postgresql", "mariadb")
def test_of_two_operators_at_once_one_acts_and_the_other_is_told(app: Flask) -> None:
    workflow = start(PlainFlow)
    workflow_id, gate, told = workflow.id, threading.Barrier(4), []
    db.session.rollback()

    def press() -> None:
        with app.app_context():
            mine = db.session.get_one(Workflow, workflow_id)
            gate.wait()
            try:
                mine.pause()
                db.session.commit()
                told.append("paused")
            except InvalidStateError:
                told.append("refused")

    threads = [threading.Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(told) == ["paused", "refused", "refused", "refused"]


@pytest.mark.parametrize("request_by", ["pause", "cancel"])
def test_a_request_takes_effect_when_the_step_ends(app: Flask, plan: Plan, ledger: Ledger, request_by: str) -> None:
    workflow = start(PlainFlow)
    workflow_id = workflow.id

    def ask(running: Any) -> None:
        write_down(running, "kept")
        if db.engine.dialect.name == "sqlite":
            db.session.commit()
        with app.app_context():
            getattr(db.session.get_one(Workflow, workflow_id), request_by)()
            db.session.commit()

    plan["one"] = ask
    run_job(workflow.step_executions[0].id, runs_ahead=True)

    workflow = reload(workflow)
    assert workflow.state == {"pause": "paused", "cancel": "canceled"}[request_by]
    assert ledger(workflow) == ["one", "kept"]
    follower = [("two", "scheduled", None)] if request_by == "pause" else []
    assert states(workflow) == [("one", "completed", "success"), *follower]
    assert workflow.pending_request is None


def test_a_request_for_a_pause_during_the_last_step_finishes(app: Flask, plan: Plan) -> None:
    workflow = start(PlainFlow)
    perform_next_step(workflow)
    workflow.pause()
    workflow.resume_at("one")
    workflow_id = workflow.id
    db.session.commit()

    def ask(running: Any) -> None:
        db.session.rollback()
        with app.app_context():
            db.session.get_one(Workflow, workflow_id).pause()
            db.session.commit()
        running.finish()

    plan["one"] = ask
    run_job(workflow.execution_history[-1].id)

    assert reload(workflow).state == "finished"


def test_jobs_go_to_the_queue_of_step_instance_or_class(queueing_app: Flask) -> None:
    # JOB-01 to JOB-04, JOB-10 to JOB-15, NEW-12, NEW-25, SCH-03, SCH-09, SCH-12, SCH-13
    by_class = start(QueuedFlow)
    assert (job_of(queueing_app, by_class).origin, job_of(queueing_app, by_class).timeout) == ("class", 70)

    order = Order()
    db.session.add(order)
    by_instance = QueuedFlow.create(hero=order, job_options={"queue": "instance"})
    db.session.commit()
    job = job_of(queueing_app, by_instance)
    assert (job.origin, job.timeout, job.args) == ("instance", 70, (by_instance.execution_history[-1].id,))

    perform_next_step(by_instance)
    delayed = job_of(queueing_app, by_instance)
    assert (delayed.origin, str(delayed.get_status())) == ("step", "JobStatus.SCHEDULED")
    assert reload(by_instance).details["job_options"] == {"queue": "instance"}


def test_a_delayed_job_is_for_the_moment_at_which_its_step_is_due(queueing_app: Flask) -> None:
    # SCH-02, SCH-16
    workflow = start(QueuedFlow)
    perform_next_step(workflow)
    execution = workflow.execution_history[-1]

    registry = queueing_app.extensions["geneva"].queue.rq_queue("step").scheduled_job_registry

    assert registry.get_scheduled_time(execution.job_id) == execution.scheduled_for


def test_a_workflow_shows_its_history_and_what_is_open(app: Flask) -> None:
    # NEW-15 to NEW-17, NEW-21, NEW-22, ORD-16
    workflow = start(PlainFlow)
    assert workflow.previous_step_name is None
    perform_next_step(workflow)

    assert [each.step_name for each in workflow.execution_history] == ["one", "two"]
    assert workflow.current_execution is workflow.execution_history[-1]
    assert workflow.previous_step_name == "one"
    speedrun(workflow)
    assert (workflow.current_execution, workflow.previous_step_name) == (None, "two")
    assert db.session.scalars(select(PlainFlow).where(PlainFlow.is_ongoing)).all() == []


class BuriedEndsFlow(Workflow[Order]):
    """Has gravestones at both ends."""

    first = removed_step()

    @step
    def middle(self) -> None:
        write_down(self)

    last = removed_step()


def test_gravestones_are_never_scheduled(app: Flask, ledger: Ledger) -> None:
    # REM-03 to REM-05, REM-08, REM-09
    workflow = start(BuriedEndsFlow)
    assert workflow.next_step_name == "middle"

    speedrun(workflow)

    assert states(workflow) == [("middle", "completed", "success")]
    assert ledger(workflow) == ["middle"]


def test_a_row_at_a_trailing_gravestone_finishes_and_at_a_leading_one_goes_on(app: Flask) -> None:
    # REM-07, REM-08, REM-14
    for name, expected in (("last", "finished"), ("first", "ready")):
        workflow = start(BuriedEndsFlow)
        db.session.execute(
            text("UPDATE geneva_step_executions SET step_name = :name WHERE workflow_id = :id"),
            {"name": name, "id": workflow.id},
        )
        db.session.commit()
        perform_next_step(workflow)

        assert states(workflow)[0] == (name, "skipped", "skipped")
        assert workflow.state == expected
        assert BuriedEndsFlow.removed_steps_in_flight() == {}


def test_gravestones_are_counted_while_something_stands_at_them(app: Flask) -> None:
    # REM-11, REM-12, REM-13, B-35
    scheduled, pointed = start(BuriedEndsFlow), start(BuriedEndsFlow)
    db.session.execute(
        text("UPDATE geneva_step_executions SET step_name = 'last' WHERE workflow_id = :id"), {"id": scheduled.id}
    )
    db.session.execute(text("DELETE FROM geneva_step_executions WHERE workflow_id = :id"), {"id": pointed.id})
    db.session.execute(
        text("UPDATE geneva_workflows SET state = 'paused', next_step_name = 'first' WHERE id = :id"),
        {"id": pointed.id},
    )
    db.session.commit()

    assert BuriedEndsFlow.removed_steps_in_flight() == {"first": 1, "last": 1}
    db.session.refresh(pointed)
    pointed.resume()
    assert BuriedEndsFlow.removed_steps_in_flight() == {"last": 1}
