"""Resume goes on with what stands, in a fixed order, or leaves everything as it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from flask_geneva import (
    InvalidStateError,
    StepNotDefinedError,
    Workflow,
    events,
    step,
)
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.testing import assert_signal_state, expire_wait, perform_next_step, speedrun
from tests.engine.elsewhere import Ledger, Plan, nothing_written
from tests.engine.flows import Boom, boom, planned, reload, run_job, start, states
from tests.harness.models import Order, db, write_down


class ResumedFlow(Workflow[Order]):
    """Begins at once and goes on tomorrow."""

    @step
    def one(self) -> None:
        write_down(self)
        planned("one", self)

    @step(wait=timedelta(days=1))
    def two(self) -> None:
        write_down(self)
        planned("two", self)


class MeetingFlow(Workflow[Order]):
    """Waits for a signal, for seven hours at most."""

    @step(wait_for="go", deadline=timedelta(hours=7), on_deadline="skip")
    def one(self) -> None:
        write_down(self)
        planned("one", self)

    @step
    def two(self) -> None:
        write_down(self)


class PatientlyPausedFlow(Workflow[Order]):
    """Waits for a signal, and pauses when none comes."""

    @step(wait_for="go", deadline=timedelta(hours=7))
    def one(self) -> None:
        write_down(self)


def paused_at_two(overdue: bool = False) -> Workflow[Any]:
    """A paused workflow whose second step is due tomorrow, or was yesterday."""
    workflow = start(ResumedFlow)
    perform_next_step(workflow)
    workflow.pause()
    db.session.commit()
    if overdue:
        due = workflow.execution_history[-1].scheduled_for - timedelta(days=2)
        db.session.execute(
            update(step_executions).where(step_executions.c.step_name == "two").values(scheduled_for=due)
        )
        db.session.commit()
    return workflow


def test_a_future_execution_is_sent_again_for_its_own_time(jobs: list[JobRequest]) -> None:
    # OPS-25, OPS-40
    workflow = paused_at_two()
    kept = workflow.execution_history[-1]
    identity, due, old_job_id = kept.id, kept.scheduled_for, kept.job_id
    del jobs[:]

    resumed = workflow.resume()
    db.session.commit()

    assert resumed is kept
    assert states(workflow)[1:] == [("two", "scheduled", None)]
    (job,) = jobs
    assert (job.execution_id, job.due, kept.scheduled_for) == (identity, due, due)
    assert job.job_id == kept.job_id != old_job_id, "the old job's id may be spent"
    assert (workflow.state, workflow.transitioned_at, workflow.next_step_name) == ("ready", None, "two")


def test_an_overdue_execution_is_sent_at_once_and_keeps_its_time(jobs: list[JobRequest]) -> None:
    # OPS-26
    workflow = paused_at_two(overdue=True)
    kept = workflow.execution_history[-1]
    due = kept.scheduled_for
    del jobs[:]

    workflow.resume()
    db.session.commit()

    (job,) = jobs
    assert (job.execution_id, job.due) == (kept.id, None)
    assert kept.scheduled_for == due


def test_an_execution_whose_job_came_during_the_pause_is_made_anew(jobs: list[JobRequest]) -> None:
    # OPS-27
    workflow = paused_at_two(overdue=True)
    run_job(workflow.execution_history[-1].id)
    del jobs[:]

    fresh = reload(workflow).resume()
    db.session.commit()

    assert states(workflow)[1:] == [("two", "canceled", "canceled"), ("two", "scheduled", None)]
    assert fresh is not None
    assert fresh is workflow.execution_history[-1]
    assert fresh.scheduled_for - fresh.created_at < timedelta(seconds=1)
    assert [(job.execution_id, job.due) for job in jobs] == [(fresh.id, None)]


def test_pauses_and_resumes_again_and_again_keep_one_row(app: Flask) -> None:
    # OPS-28
    workflow = start(ResumedFlow)

    for _ in range(3):
        workflow.pause()
        workflow.resume()
        db.session.commit()

    assert states(workflow) == [("one", "scheduled", None)]


def test_after_a_failure_the_failed_step_is_tried_again_at_once(jobs: list[JobRequest], plan: Plan) -> None:
    # OPS-29, OPS-30
    plan["two"] = boom
    workflow = start(ResumedFlow)
    perform_next_step(workflow)
    perform_next_step(workflow, raise_errors=False)
    assert (workflow.state, workflow.next_step_name) == ("paused", "two")
    del jobs[:]

    workflow.resume()
    db.session.commit()

    failed, retry = workflow.execution_history[1:]
    assert (failed.state, failed.outcome, failed.error_message) == ("failed", "failed", "bang")
    assert (retry.step_name, retry.state, workflow.next_step_name) == ("two", "scheduled", "two")
    assert [(job.execution_id, job.due) for job in jobs] == [(retry.id, None)]


def test_a_parked_step_gets_the_signal_that_came_meanwhile(jobs: list[JobRequest], ledger: Ledger) -> None:
    # OPS-31, OPS-36
    workflow = start(MeetingFlow)
    perform_next_step(workflow)
    workflow.pause()
    signal = workflow.signal("go")
    db.session.commit()
    del jobs[:]

    workflow.resume()
    db.session.commit()

    (execution,) = workflow.execution_history
    assert (execution.state, execution.signal_id, execution.deadline_at) == ("scheduled", signal.id, None)
    assert [(job.execution_id, job.due) for job in jobs] == [(execution.id, None)]
    assert_signal_state(workflow, "go", "claimed")
    speedrun(workflow)
    assert ledger(workflow) == ["one", "two"]


def test_a_parked_step_without_a_signal_stays_parked_and_its_deadline_is_sent_again(jobs: list[JobRequest]) -> None:
    # OPS-32
    workflow = start(MeetingFlow)
    perform_next_step(workflow)
    (execution,) = workflow.execution_history
    since, deadline = execution.waiting_since, execution.deadline_at
    workflow.pause()
    workflow.signal("something else")
    db.session.commit()
    del jobs[:]

    workflow.resume()
    db.session.commit()

    assert (workflow.state, execution.state) == ("ready", "waiting")
    assert (execution.waiting_since, execution.deadline_at) == (since, deadline)
    assert [(job.execution_id, job.due) for job in jobs] == [(execution.id, deadline)]


def test_a_parked_step_without_a_deadline_sends_nothing(jobs: list[JobRequest]) -> None:
    # OPS-32
    workflow = start(LonelyFlow)
    perform_next_step(workflow)
    workflow.pause()
    db.session.commit()
    del jobs[:]

    workflow.resume()
    db.session.commit()

    assert (states(workflow), jobs) == ([("one", "waiting", None)], [])


class LonelyFlow(Workflow[Order]):
    """Waits for a signal for ever."""

    @step(wait_for="go")
    def one(self) -> None:
        """Do nothing."""


def test_a_deadline_that_passed_during_the_pause_is_applied(app: Flask, ledger: Ledger) -> None:
    workflow = start(MeetingFlow)
    perform_next_step(workflow)
    workflow.pause()
    expire_wait(workflow)

    workflow.resume()

    assert states(workflow) == [("one", "skipped", "skipped"), ("two", "scheduled", None)]
    speedrun(workflow)
    assert ledger(workflow) == ["two"]


def test_a_signal_that_came_during_the_pause_has_its_chance_before_a_passed_deadline(
    app: Flask, ledger: Ledger
) -> None:
    workflow = start(MeetingFlow)
    perform_next_step(workflow)
    workflow.pause()
    workflow.signal("go")
    expire_wait(workflow)

    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow) == ["one", "two"]


def test_a_deadline_that_pauses_pauses_again_and_is_told_of(app: Flask) -> None:
    workflow, told = start(PatientlyPausedFlow), []
    perform_next_step(workflow)
    workflow.pause()
    expire_wait(workflow)

    def listen(sender: Flask, **facts: Any) -> None:
        told.append(facts["workflow_id"])

    with events.workflow_paused.connected_to(listen):
        workflow.resume()
        db.session.commit()

    (failed,) = workflow.execution_history
    assert (failed.state, failed.error_class_name, workflow.state) == ("failed", "DeadlineExceeded", "paused")
    assert told == [workflow.id]
    workflow.resume()
    perform_next_step(workflow)
    parked = workflow.execution_history[-1]
    assert parked.state == "waiting"
    assert parked.deadline_at is not None


@pytest.mark.parametrize("has_row", [True, False])
def test_a_vanished_step_is_an_error_and_the_workflow_stays_paused(app: Flask, has_row: bool) -> None:
    # OPS-37, MIS-05, MIS-08, B-02
    workflow = paused_at_two()
    if has_row:
        db.session.execute(update(step_executions).values(step_name="vanished"))
    else:
        run_job(workflow.execution_history[-1].id)
        db.session.execute(update(workflows).values(next_step_name="vanished"))
    db.session.commit()

    with nothing_written(), pytest.raises(StepNotDefinedError) as refusal:
        reload(workflow).resume()

    assert str(refusal.value) == (
        f"Cannot resume ResumedFlow #{workflow.id}: step 'vanished' is not defined in ResumedFlow. The steps defined "
        f"are: one, two. Continue from one of them with resume_at('step'), cancel the workflow, or declare "
        f"'vanished = removed_step()' where the step stood."
    )
    assert workflow.state == "paused"


def test_one_job_is_sent_after_the_outer_transaction(jobs: list[JobRequest]) -> None:
    # OPS-38
    workflow = paused_at_two()
    del jobs[:]

    with db.session.begin_nested():
        workflow.resume()
    assert jobs == []
    db.session.commit()

    assert len(jobs) == 1


def test_pause_resume_and_run_to_the_end(app: Flask, ledger: Ledger) -> None:
    # OPS-39
    workflow = start(ResumedFlow)
    for _ in range(2):
        workflow.pause()
        workflow.resume()
        perform_next_step(workflow)

    assert workflow.state == "finished"
    assert ledger(workflow) == ["one", "two"]


def test_a_resume_that_finds_no_way_on_can_be_followed_by_resume_at(app: Flask) -> None:
    # OPS-37, OPS-45
    workflow = paused_at_two()
    db.session.execute(update(step_executions).where(step_executions.c.step_name == "two").values(step_name="gone"))
    db.session.commit()
    with pytest.raises(StepNotDefinedError):
        workflow.resume()

    workflow.resume_at("two")
    speedrun(workflow)

    assert workflow.state == "finished"


def test_two_resumes_in_one_transaction_are_one_too_many(app: Flask) -> None:
    # OPS-06
    workflow = paused_at_two()
    workflow.resume()

    with pytest.raises(InvalidStateError, match="the workflow is ready"):
        workflow.resume()


def test_a_broken_matcher_leaves_the_workflow_paused(app: Flask) -> None:
    workflow = start(BrokenMatcherFlow)
    perform_next_step(workflow)
    workflow.pause()
    workflow.signal("anything")
    db.session.commit()

    with nothing_written(), pytest.raises(Boom):
        workflow.resume()

    assert reload(workflow).state == "paused"


class BrokenMatcher:
    """Fails when it is asked."""

    def matches(self, signal: Any) -> bool:
        raise Boom("the matcher is broken")


class BrokenMatcherFlow(Workflow[Order]):
    """Waits with a matcher that fails."""

    @step(wait_for=BrokenMatcher())
    def one(self) -> None:
        """Do nothing."""
