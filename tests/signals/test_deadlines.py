"""How long a step stays parked, and what becomes of it then; a signal and its deadline never both win."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from flask_geneva import IterableStep, SignalMatcher, Workflow, cancel_if, resumable_step, step
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.records.tables import step_executions
from flask_geneva.testing import (
    assert_signal_state,
    assert_step_executed,
    assert_waiting_for_signal,
    expire_wait,
    perform_next_step,
    run_iterations,
    speedrun,
)
from tests.engine.flows import Boom, reload, run_job, start, states
from tests.harness.models import Order, db, write_down
from tests.signals.flows import Ledger, change_hero, end_as_told, parked

DAY = timedelta(days=1)
PAST = datetime(2020, 1, 1, tzinfo=UTC)


class PauseAtDeadlineFlow(Workflow[Order]):
    """Waits for a day; without more it is paused then."""

    @step(wait_for="paid", deadline=DAY)
    def capture(self) -> None:
        write_down(self, f"captured {self.received_signal.payload}")

    @step
    def ship(self) -> None:
        write_down(self)


class SkipAtDeadlineFlow(PauseAtDeadlineFlow):
    """Goes on without the step."""

    @step(wait_for="paid", deadline=DAY.total_seconds(), on_deadline="skip", before="capture")
    def remind(self) -> None:
        write_down(self)


class CancelAtDeadlineFlow(Workflow[Order]):
    """Ends."""

    @step(wait_for="paid", deadline=DAY, on_deadline="cancel")
    def capture(self) -> None:
        write_down(self)


class RunAtDeadlineFlow(Workflow[Order]):
    """Does without the signal."""

    @cancel_if
    def is_withdrawn(self) -> bool:
        return self.hero.withdrawn

    @step(wait_for="paid", deadline=DAY, on_deadline="run", skip_if=lambda workflow: workflow.hero.reviewed)
    def capture(self) -> None:
        signal = self.received_signal
        write_down(self, f"ran with {signal and signal.payload}")
        end_as_told(self)


class RunOnFlow(Workflow[Order]):
    """A resumable step that begins with the signal, or past its deadline."""

    @resumable_step(wait_for="paid", max_iterations=2, deadline=DAY, on_deadline="run")
    def chain(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(5)):
            write_down(self, f"{number} {self.received_signal}")


class ChoosyAtDeadlineFlow(Workflow[Order]):
    """Takes only what its hero expects."""

    @step(
        wait_for=SignalMatcher("paid", lambda workflow, payload: payload == workflow.hero.amount),
        deadline=DAY,
        on_deadline="run",
    )
    def capture(self) -> None:
        write_down(self, f"ran with {self.received_signal and self.received_signal.payload}")


def expired(workflow_class: type[Workflow[Any]], **columns: Any) -> Workflow[Any]:
    workflow = parked(workflow_class, **columns)
    expire_wait(workflow)
    return workflow


def let_pass(workflow: Workflow[Any]) -> None:
    """The deadline passes, and no job comes for it."""
    own = step_executions.c.workflow_id == workflow.id
    db.session.execute(update(step_executions).where(own).values(deadline_at=PAST))
    db.session.commit()


def test_parking_stores_the_deadline_and_sends_a_job_for_it(jobs: list[JobRequest]) -> None:
    workflow = start(PauseAtDeadlineFlow)
    run_job(workflow.step_executions[0].id)

    execution = assert_waiting_for_signal(reload(workflow), "paid")

    assert execution.deadline_at is not None
    assert execution.waiting_since is not None
    assert execution.deadline_at - execution.waiting_since == DAY
    assert (jobs[-1].execution_id, jobs[-1].due) == (execution.id, execution.deadline_at)


def test_the_step_is_paused_at_its_deadline(app: Flask, ledger: Ledger) -> None:
    workflow = expired(PauseAtDeadlineFlow)

    perform_next_step(workflow, raise_errors=False)

    failed = workflow.execution_history[-1]
    assert (failed.state, failed.outcome, failed.error_class_name) == ("failed", "failed", "DeadlineExceeded")
    assert failed.error_message is not None
    assert "signal 'paid'" in failed.error_message
    assert (workflow.state, workflow.next_step_name) == ("paused", "capture")
    assert ledger(workflow) == []


def test_the_pause_at_a_deadline_is_reported(app: Flask) -> None:
    workflow = parked(PauseAtDeadlineFlow)
    let_pass(workflow)

    run = run_job(workflow.execution_history[-1].id)

    assert "until its deadline passed" in str(run.error_to_report)


def test_the_step_is_skipped_at_its_deadline(app: Flask) -> None:
    workflow = expired(SkipAtDeadlineFlow)

    perform_next_step(workflow)

    skipped = assert_step_executed(workflow, "remind", "skipped")
    assert (skipped.outcome, skipped.deadline_at, skipped.finished_at is None) == ("skipped", None, False)
    assert (workflow.state, workflow.next_step_name) == ("ready", "capture")


def test_the_workflow_is_canceled_at_the_deadline(app: Flask) -> None:
    workflow = expired(CancelAtDeadlineFlow)

    perform_next_step(workflow)

    assert states(workflow) == [("capture", "canceled", "canceled")]
    assert workflow.state == "canceled"


def test_the_step_runs_without_a_signal_at_its_deadline(app: Flask, ledger: Ledger) -> None:
    workflow = expired(RunAtDeadlineFlow)

    perform_next_step(workflow)

    assert ledger(workflow) == ["ran with None"]
    assert (states(workflow), workflow.state) == ([("capture", "completed", "success")], "finished")


@pytest.mark.parametrize(
    ("columns", "state", "workflow_state"),
    [({"reviewed": True}, "skipped", "finished"), ({"withdrawn": True}, "canceled", "canceled")],
)
def test_conditions_are_asked_before_the_step_runs_at_its_deadline(
    app: Flask, ledger: Ledger, columns: dict[str, Any], state: str, workflow_state: str
) -> None:
    workflow = expired(RunAtDeadlineFlow)
    change_hero(workflow, **columns)

    perform_next_step(workflow)

    assert (workflow.execution_history[-1].state, workflow.state) == (state, workflow_state)
    assert ledger(workflow) == []


def test_a_hero_that_is_gone_at_the_deadline_cancels_the_workflow(app: Flask, ledger: Ledger) -> None:
    workflow = expired(RunAtDeadlineFlow)
    db.session.delete(workflow.hero)
    db.session.commit()

    perform_next_step(workflow)

    assert (workflow.state, ledger(workflow)) == ("canceled", [])


def test_a_reattempt_past_the_deadline_runs_again_at_once(app: Flask, ledger: Ledger) -> None:
    workflow = expired(RunAtDeadlineFlow, state="reattempt")

    speedrun(workflow)

    assert ledger(workflow) == ["ran with None", "ran with None"]


def test_a_resume_after_an_error_past_the_deadline_runs_the_step_again(app: Flask, ledger: Ledger) -> None:
    workflow = expired(RunAtDeadlineFlow, state="fail")
    with pytest.raises(Boom):
        perform_next_step(workflow)
    change_hero(workflow, state="fine")

    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow) == ["ran with None"]


def test_an_attempt_past_the_deadline_takes_a_signal_that_came_late(app: Flask, ledger: Ledger) -> None:
    workflow = expired(RunAtDeadlineFlow, state="reattempt")
    perform_next_step(workflow)
    workflow.signal("paid", 7)

    speedrun(workflow)

    assert ledger(workflow) == ["ran with None", "ran with 7"]
    assert_signal_state(workflow, "paid", "consumed")


def test_the_chain_of_a_resumable_step_goes_on_past_its_deadline(app: Flask, ledger: Ledger) -> None:
    workflow = expired(RunOnFlow)

    for _ in range(3):
        run_iterations(workflow, 2)

    assert ledger(workflow) == [f"{number} None" for number in range(5)]
    assert workflow.state == "finished"


def test_a_deadline_that_has_not_passed_is_left_alone(app: Flask) -> None:
    workflow = parked(PauseAtDeadlineFlow)
    before = workflow.execution_history[-1].deadline_at

    run_job(workflow.execution_history[-1].id)

    assert assert_waiting_for_signal(reload(workflow)).deadline_at == before


def test_a_job_that_comes_before_the_deadline_sends_another_for_it(jobs: list[JobRequest]) -> None:
    workflow = parked(PauseAtDeadlineFlow)
    execution = workflow.execution_history[-1]
    spent = jobs[-1].job_id
    jobs.clear()

    run_job(execution.id)

    assert [(job.execution_id, job.due) for job in jobs] == [(execution.id, execution.deadline_at)]
    # RQ forgets the job that is running when it ends, and with it one of the same id.
    assert jobs[0].job_id not in (None, spent)


def test_a_signal_in_time_takes_the_deadline_away(app: Flask, ledger: Ledger) -> None:
    workflow = parked(PauseAtDeadlineFlow)
    workflow.signal("paid", 1)
    woken = workflow.execution_history[-1]

    assert (woken.state, woken.deadline_at) == ("scheduled", None)
    speedrun(workflow)
    assert ledger(workflow) == ["captured 1", "ship"]


def test_the_deadlines_job_finds_a_woken_step_gone_on(app: Flask, ledger: Ledger) -> None:
    workflow = parked(PauseAtDeadlineFlow)
    execution_id = workflow.execution_history[-1].id
    workflow.signal("paid", 1)
    speedrun(workflow)

    run_job(execution_id)

    assert reload(workflow).state == "finished"
    assert ledger(workflow) == ["captured 1", "ship"]


def test_a_signal_after_the_deadline_is_buffered(app: Flask) -> None:
    workflow = expired(PauseAtDeadlineFlow)
    perform_next_step(workflow, raise_errors=False)

    workflow.signal("paid")

    assert_signal_state(workflow, "paid", "pending")
    assert workflow.state == "paused"


def test_a_resume_after_the_deadline_takes_the_signal_that_came_late(app: Flask, ledger: Ledger) -> None:
    workflow = expired(PauseAtDeadlineFlow)
    perform_next_step(workflow, raise_errors=False)
    workflow.signal("paid", 2)

    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow) == ["captured 2", "ship"]


def test_a_resume_after_the_deadline_waits_a_whole_one_again(app: Flask) -> None:
    workflow = expired(PauseAtDeadlineFlow)
    perform_next_step(workflow, raise_errors=False)
    workflow.resume()

    perform_next_step(workflow)

    waiting = assert_waiting_for_signal(workflow)
    assert waiting.deadline_at is not None
    assert waiting.waiting_since is not None
    assert waiting.deadline_at - waiting.waiting_since == DAY


def test_a_deadline_that_passes_during_a_pause_changes_nothing_before_the_resume(app: Flask) -> None:
    workflow = parked(PauseAtDeadlineFlow)
    workflow.pause()
    let_pass(workflow)

    run_job(workflow.execution_history[-1].id)

    assert (reload(workflow).state, workflow.execution_history[-1].state) == ("paused", "waiting")


@pytest.mark.parametrize(
    ("workflow_class", "state", "workflow_state"),
    [
        (PauseAtDeadlineFlow, "failed", "paused"),
        (SkipAtDeadlineFlow, "skipped", "ready"),
        (CancelAtDeadlineFlow, "canceled", "canceled"),
        (RunAtDeadlineFlow, "scheduled", "ready"),
    ],
)
def test_a_deadline_that_passed_during_a_pause_is_applied_by_the_resume(
    app: Flask, workflow_class: type[Workflow[Any]], state: str, workflow_state: str
) -> None:
    workflow = parked(workflow_class)
    workflow.pause()
    let_pass(workflow)

    workflow.resume()
    db.session.commit()

    assert (workflow.execution_history[0].state, workflow.state) == (state, workflow_state)


def test_a_step_that_a_resume_finds_past_its_deadline_runs_without_a_signal(app: Flask, ledger: Ledger) -> None:
    workflow = parked(RunAtDeadlineFlow)
    workflow.pause()
    let_pass(workflow)

    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow) == ["ran with None"]


@pytest.mark.parametrize("workflow_class", [PauseAtDeadlineFlow, RunAtDeadlineFlow])
def test_a_signal_that_came_during_the_pause_beats_the_deadline_that_passed_in_it(
    app: Flask, ledger: Ledger, workflow_class: type[Workflow[Any]]
) -> None:
    workflow = parked(workflow_class)
    workflow.pause()
    let_pass(workflow)
    workflow.signal("paid", 3)

    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow)[0] in ("captured 3", "ran with 3")
    assert_signal_state(workflow, "paid", "consumed")


def test_a_signal_that_does_not_match_does_not_stop_the_deadline(app: Flask, ledger: Ledger) -> None:
    workflow = parked(ChoosyAtDeadlineFlow, amount=5)
    workflow.signal("paid", 4)
    expire_wait(workflow)

    speedrun(workflow)

    assert ledger(workflow) == ["ran with None"]
    assert_signal_state(workflow, "paid", "pending")


def test_expire_wait_needs_a_step_that_is_parked_with_a_deadline(app: Flask) -> None:
    workflow = start(PauseAtDeadlineFlow)

    with pytest.raises(AssertionError, match="not parked on a step that has a deadline"):
        expire_wait(workflow)
