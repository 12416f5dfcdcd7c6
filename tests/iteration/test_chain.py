"""The successors of a resumable step, and how verbs, errors and resumes go on from a cursor."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from flask_geneva import Geneva, IterableStep, Workflow, resumable_step, step
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.testing import run_iterations, speedrun
from tests.engine.elsewhere import Ledger, Plan, press
from tests.engine.flows import Boom, boom, planned, reload, start
from tests.harness.models import Order, db, write_down
from tests.housekeeping.workflows import begin_by_hand
from tests.iteration.flows import IteratedFlow, ThriceFlow, begun, outcomes, over, run_all, run_one


class UrgentIterationFlow(Workflow[Order]):
    """Its jobs go on a queue of their own, after a wait."""

    job_options = {"queue": "critical", "timeout": 50}

    @resumable_step(max_iterations=2, wait=timedelta(hours=3), job_options={"timeout": 90})
    def one(self, it: IterableStep) -> None:
        planned("body", self, it)


class SkippableIterationFlow(Workflow[Order]):
    """May be skipped between two items."""

    @resumable_step(max_iterations=1, skip_if=lambda workflow: workflow.hero.state == "enough")
    def one(self, it: IterableStep) -> None:
        planned("body", self, it)

    @step
    def two(self) -> None:
        write_down(self)


class SignaledIterationFlow(Workflow[Order]):
    """Needs a signal once."""

    @resumable_step(max_iterations=2, wait_for="paid")
    def one(self, it: IterableStep) -> None:
        planned("body", self, it)


class StubbornIterationFlow(Workflow[Order]):
    """Tries again after an error, twice, and then goes on with the next step."""

    @resumable_step(on_exception="reattempt", max_reattempts=2, terminal_action="skip")
    def one(self, it: IterableStep) -> None:
        planned("body", self, it)

    @step
    def two(self) -> None:
        write_down(self)


def once(at: Any, act: Any) -> Any:
    """Act at this item, the first time that it comes."""
    done: list[Any] = []

    def maybe(running: Any, item: Any) -> None:
        if item == at and not done:
            done.append(item)
            act(running)

    return maybe


def test_a_successor_is_linked_with_what_it_continues(app: Flask, plan: Plan) -> None:
    # RES-39, RES-44
    workflow = run_all(begun(plan, over(range(5)), ThriceFlow))

    first, second, following = workflow.execution_history
    assert second.continues_from is first
    assert first.successor is second
    assert (second.outcome, second.successor) == ("success", None)
    assert following.continues_from is None


def test_a_successor_carries_step_cursor_and_signal(app: Flask, plan: Plan) -> None:
    # RES-40
    workflow = begun(plan, over(range(3)), SignaledIterationFlow)
    signal = workflow.signal("paid", 1)
    db.session.commit()

    run_one(workflow)

    first, second = workflow.execution_history
    assert (second.step_name, second.cursor_value, second.signal_id) == ("one", 2, signal.id)
    assert (second.state, second.scheduled_for) == ("scheduled", first.finished_at)
    assert (workflow.state, workflow.next_step_name) == ("ready", "one")
    run_all(workflow)
    assert (signal.state, signal.claimed, signal.consumed) == ("consumed", 1, 1)


def test_the_options_of_the_job_hold_for_successors_but_not_the_wait(jobs: list[JobRequest], plan: Plan) -> None:
    # RES-41, RES-42
    workflow = run_all(begun(plan, over(range(3)), UrgentIterationFlow))

    assert [dict(job.options) for job in jobs] == [{"queue": "critical", "timeout": 90}] * 2
    assert [job.due is None for job in jobs] == [False, True]
    first, second = workflow.execution_history
    assert second.scheduled_for == first.finished_at


def test_conditions_are_asked_again_before_each_part(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-45
    def enough(running: Any) -> None:
        running.hero.state = "enough"

    workflow = run_all(begun(plan, over([1, 2, 3, 4], at=once(2, enough)), SkippableIterationFlow))

    assert ledger(workflow) == ["1", "2", "two"]
    assert outcomes(workflow) == [("continued", 1), ("continued", 2), ("skipped", 2)]


def test_a_pause_in_the_body_keeps_the_cursor_and_a_resume_goes_on_there(
    app: Flask, plan: Plan, ledger: Ledger
) -> None:
    # RES-46, RES-47, FLW-07
    def body(running: Any, it: IterableStep) -> None:
        for item in range(it.cursor or 1, 6):
            if item == 4 and not it.resumed:
                it.set(4)
                running.pause()
            write_down(running, str(item))
            it.set(item + 1)

    workflow = run_one(begun(plan, body))
    assert (workflow.state, outcomes(workflow)) == ("paused", [("workflow_paused", 4)])
    press(workflow.id, "resume")
    run_all(workflow)

    assert ledger(workflow) == ["1", "2", "3", "4", "5", "two"]
    assert workflow.execution_history[1].continues_from is workflow.execution_history[0]


def test_each_resume_goes_on_from_the_newest_cursor(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-49
    def pause_each_time(running: Any, item: int) -> None:
        if item in (1, 3):
            running.pause()

    def body(running: Any, it: IterableStep) -> None:
        for item in it.iterate_over(range(5)):
            write_down(running, str(item))
            if item in (1, 3) and it.cursor == item and len(running.execution_history) < (2 if item == 1 else 3):
                it.set(item + 1)
                running.pause()

    workflow = run_one(begun(plan, body))
    for _ in range(2):
        assert reload(workflow).state == "paused"
        press(workflow.id, "resume")
        run_one(workflow)
    run_all(workflow)

    assert ledger(workflow) == ["0", "1", "2", "3", "4", "two"]
    assert outcomes(workflow) == [("workflow_paused", 2), ("workflow_paused", 4), ("success", 5)]


def test_a_cancel_in_the_body_ends_the_workflow(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-50
    workflow = run_all(begun(plan, over([1, 2, 3, 4], at=once(3, lambda running: running.cancel()))))

    assert (workflow.state, ledger(workflow)) == ("canceled", ["1", "2", "3"])
    assert outcomes(workflow) == [("canceled", 2)]


@pytest.mark.parametrize(
    ("verb", "state", "marks"), [("skip", "skipped", ["1", "2", "two"]), ("finish", "success", ["1", "2"])]
)
def test_skip_and_finish_in_the_body_end_the_step(
    app: Flask, plan: Plan, ledger: Ledger, verb: str, state: str, marks: list[str]
) -> None:
    # RES-51
    workflow = run_all(begun(plan, over([1, 2, 3], at=once(2, lambda running: getattr(running, verb)()))))

    assert (workflow.state, ledger(workflow)) == ("finished", marks)
    assert outcomes(workflow) == [(state, 1)]


def test_a_reattempt_in_the_body_goes_on_from_the_cursor(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-52
    workflow = run_all(begun(plan, over("xyz", at=once("y", lambda running: running.reattempt()))))

    assert ledger(workflow) == ["x", "y", "y", "z", "two"]
    assert outcomes(workflow) == [("reattempted", 1), ("success", 3)]


def test_a_reattempt_with_rewind_begins_anew(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-53, RES-08
    resumed: list[bool] = []
    rewind = once("y", lambda running: running.reattempt(rewind=True))

    def body(running: Any, it: IterableStep) -> None:
        resumed.append(it.resumed)
        over("xyz", at=rewind)(running, it)

    workflow = run_all(begun(plan, body))

    assert ledger(workflow) == ["x", "y", "x", "y", "z", "two"]
    # What is over keeps its cursor: history does not change.
    assert outcomes(workflow) == [("reattempted", 1), ("success", 3)]
    assert resumed == [False, True]


def test_an_error_goes_on_from_the_cursor_by_its_policy(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-57
    workflow = run_all(begun(plan, over([1, 2, 3, 4, 5], at=once(3, boom)), StubbornIterationFlow))

    # What the failed attempt wrote since its checkpoint is taken back: item 3 is there once.
    assert ledger(workflow) == ["1", "2", "3", "4", "5", "two"]
    assert outcomes(workflow) == [("reattempted", 2), ("success", 5)]


def test_an_error_without_a_policy_keeps_the_cursor_and_a_resume_goes_on_there(
    app: Flask, plan: Plan, ledger: Ledger
) -> None:
    # RES-58, RES-59
    workflow = begun(plan, over("abcd", at=once("c", boom)))
    with pytest.raises(Boom):
        speedrun(workflow)
    assert (workflow.state, outcomes(workflow), ledger(workflow)) == ("paused", [("failed", 2)], ["a", "b"])

    press(workflow.id, "resume")
    run_all(workflow)

    assert ledger(workflow) == ["a", "b", "c", "d", "two"]
    assert workflow.execution_history[1].continues_from is workflow.execution_history[0]


def test_an_error_before_the_first_checkpoint_leaves_nothing_to_go_on_from(app: Flask, plan: Plan) -> None:
    # RES-60
    workflow = run_one(begun(plan, over("ab", at=once("a", boom))))

    press(workflow.id, "resume")
    run_all(workflow)

    assert workflow.execution_history[1].continues_from is None
    assert outcomes(workflow) == [("failed", None), ("success", 2)]


def test_errors_without_progress_end_by_the_terminal_action(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-61
    def fail_at(running: Any, item: int) -> None:
        if item == 3:
            boom()

    workflow = run_all(begun(plan, over([1, 2, 3, 4], at=fail_at), StubbornIterationFlow))

    assert ledger(workflow) == ["1", "2", "two"]
    assert [outcome for outcome, _ in outcomes(workflow)] == ["reattempted", "reattempted", "skipped"]


def test_progress_begins_the_count_of_errors_anew(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-64, B-57
    failed: dict[int, int] = {}

    def fail_twice(running: Any, item: int) -> None:
        failed[item] = failed.get(item, 0) + 1
        if failed[item] <= 2:
            boom()

    workflow = run_all(begun(plan, over(range(4), at=fail_twice), StubbornIterationFlow))

    assert ledger(workflow) == ["0", "1", "2", "3", "two"]
    assert workflow.state == "finished"


@pytest.mark.parametrize("done", range(6))
def test_a_step_whose_worker_died_goes_on_from_its_cursor(
    app: Flask, extension: Geneva, plan: Plan, ledger: Ledger, done: int
) -> None:
    # RES-62, RES-63
    workflow = begun(plan, over(range(6)), IteratedFlow)
    if done:
        run_iterations(workflow, done)
    begin_by_hand(reload(workflow), job_id="nobody")

    extension.run_housekeeping()
    run_all(workflow)

    assert ledger(workflow) == [*map(str, range(6)), "two"]
    assert "recovered" in [outcome for outcome, _ in outcomes(workflow)]


def test_a_death_while_a_pause_is_asked_for_keeps_the_cursor(
    app: Flask, extension: Geneva, plan: Plan, ledger: Ledger
) -> None:
    # B-27
    workflow = begun(plan, over(range(4)), IteratedFlow)
    run_iterations(workflow, 2)
    begin_by_hand(reload(workflow), job_id="nobody")
    press(workflow.id, "pause")

    extension.run_housekeeping()
    assert reload(workflow).state == "paused"
    press(workflow.id, "resume")
    run_all(workflow)

    assert ledger(workflow) == ["0", "1", "2", "3", "two"]


def test_the_first_part_of_a_started_workflow_is_no_successor(app: Flask, plan: Plan) -> None:
    assert start(IteratedFlow).execution_history[0].resumed is False
