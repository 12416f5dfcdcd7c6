"""A commit came to pass and its answer was lost: the job finds out, and goes on as if it had arrived."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from flask_geneva import IterableStep, Workflow, cancel_if, events, resumable_step, step
from tests.engine.elsewhere import Plan, elsewhere
from tests.engine.flows import PlainFlow, reload, run_job, start, states
from tests.harness.invariants import broken
from tests.harness.lost_answers import losing_the_answer
from tests.harness.models import Order, db, write_down, written_down

Heard = list[tuple[str, str]]


class AnsweredFlow(Workflow[Order]):
    """Every way in which a job's transaction may end."""

    @cancel_if
    def is_canceled(self) -> bool:
        return False

    @step(skip_if=True)
    def passed_over(self) -> None:
        write_down(self)

    @step
    def first(self) -> None:
        write_down(self)

    @step
    def second(self) -> None:
        write_down(self)

    @step(job_options={"description": "a job of its own"}, skip_if=True)
    def apart_passed_over(self) -> None:
        write_down(self)

    @step
    def third(self) -> None:
        write_down(self)

    @step(wait=timedelta(hours=1))
    def later(self) -> None:
        write_down(self)

    @step(on_exception="reattempt")
    def fail_once(self) -> None:
        write_down(self)
        if not any(each.outcome == "reattempted" for each in self.execution_history):
            raise RuntimeError("on purpose")

    @resumable_step(max_iterations=2)
    def count(self, it: IterableStep) -> None:
        for item in it.iterate_over(range(3)):
            write_down(self, f"count {item}")

    @step(wait_for="go", deadline=timedelta(hours=1), on_deadline="run")
    def last(self) -> None:
        write_down(self)


LEDGER = ["first", "second", "third", "later", "fail_once", "count 0", "count 1", "count 2", "last"]


def let_run(jobs: list[Any], workflow: Workflow[Any], moment: int, *, comes_to_pass: bool = True) -> bool:
    """Work like one worker until no job is left, losing the answer to one of its commits; whether one was lost."""
    done, is_lost = 0, False
    while jobs:
        request = jobs.pop(0)
        if workflow.execution_history[-1].state == "waiting":
            workflow.signal("go", idempotency_key="once")
            db.session.commit()
        with losing_the_answer(moment - done, db.engine, comes_to_pass=comes_to_pass) as answers:
            run_job(request.execution_id, job_id=request.job_id, ignores_time=True, runs_ahead=True)
        done, is_lost = done + answers.commits, is_lost or answers.is_lost
        reload(workflow)
    return is_lost


@pytest.mark.parametrize("comes_to_pass", [True, False], ids=["came to pass", "did not"])
def test_an_answer_lost_at_any_commit_costs_neither_a_step_nor_a_job(
    jobs: list[Any],
    comes_to_pass: bool,
    record_property: Callable[[str, object], None],
) -> None:
    for moment in itertools.count(1):
        workflow = start(AnsweredFlow)
        is_lost = let_run(jobs, workflow, moment, comes_to_pass=comes_to_pass)

        assert (workflow.state, written_down(workflow.id)) == ("finished", LEDGER), (moment, states(workflow))
        assert broken() == []
        if not is_lost:
            break
    assert moment > len(LEDGER)
    record_property(f"commits whose answer was lost ({'done' if comes_to_pass else 'not done'})", moment - 1)


def test_what_the_lost_answer_was_to_announce_is_announced_once(jobs: list[Any]) -> None:
    counted: Heard = []

    def note(sender: Flask, **facts: Any) -> None:
        counted.append((facts.get("step_name", ""), str(facts.get("outcome", "workflow"))))

    with events.step_finished.connected_to(note), events.workflow_finished.connected_to(note):
        workflow = start(AnsweredFlow)
        let_run(jobs, workflow, 0)
        expected, moments = sorted(counted), len(jobs)
        for moment in range(1, 10):
            counted.clear()
            workflow = start(AnsweredFlow)
            assert let_run(jobs, workflow, moment)
            heard = [each for each in sorted(counted) if each != ("count", "reattempted")]
            assert heard == expected, moment
    assert moments == 0


def test_a_step_that_was_taken_after_the_lost_answer_is_left_alone(jobs: list[Any], plan: Plan) -> None:
    workflow, run = start(PlainFlow), []
    plan["one"] = run.append
    request = jobs.pop(0)

    def take() -> None:
        with elsewhere():
            db.session.execute(text("UPDATE geneva_step_executions SET state = 'completed', outcome = 'recovered'"))
            db.session.commit()

    with losing_the_answer(1, db.engine, then=take) as answers:
        run_job(request.execution_id, job_id=request.job_id, runs_ahead=True)

    assert (answers.is_lost, run, jobs) == (True, [], [])
    assert states(reload(workflow)) == [("one", "completed", "recovered")]
