"""How progress of a resumable step and the count of its errors go together."""

from __future__ import annotations

from typing import Any

from flask import Flask
from sqlalchemy import text

from flask_geneva import IterableStep, Workflow, resumable_step
from flask_geneva.testing import perform_next_step
from tests.engine.elsewhere import Ledger, Plan
from tests.engine.failing import fail_again, raising
from tests.engine.flows import Boom, PlainFlow, boom, planned, reload, run_job, start
from tests.harness.models import Order, db


class PartsFlow(Workflow[Order]):
    """Counts to three, and stops after each number."""

    @resumable_step(max_iterations=1, on_exception="reattempt", max_reattempts=2)
    def one(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(3)):
            planned(f"at {number}", self)


def test_a_part_that_went_well_begins_the_count_anew(app: Flask, plan: Plan) -> None:
    # EXC-37
    for number in range(3):
        plan[f"at {number}"] = raising(Boom(), Boom(), None)
    workflow = start(PartsFlow)

    for _ in range(10):
        # Not by the helper, which knows no limits.
        standing = reload(workflow).current_execution
        if standing is not None:
            run_job(standing.id)

    assert reload(workflow).state == "finished"
    outcomes = [each.outcome for each in workflow.execution_history]
    assert outcomes == ["reattempted", "reattempted", "continued"] * 2 + ["reattempted", "reattempted", "success"]


def test_an_attempt_that_came_further_begins_the_count_anew(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # B-57
    for number in range(6):
        plan[f"at {number}"] = raising(Boom(), Boom(), None)

    workflow = fail_again(start(LongFlow), 13)

    assert workflow.state == "finished"
    assert [each.outcome for each in workflow.execution_history] == ["reattempted"] * 12 + ["success"]


def test_an_attempt_that_came_no_further_uses_the_limit_up(app: Flask, plan: Plan) -> None:
    # EXC-34, B-57
    plan["at 3"] = boom

    workflow = fail_again(start(LongFlow), 3)

    assert workflow.state == "paused"
    assert [each.outcome for each in workflow.execution_history] == ["reattempted", "reattempted", "failed"]


class LongFlow(Workflow[Order]):
    """Counts to six in one go."""

    @resumable_step(on_exception="reattempt", max_reattempts=2)
    def one(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(6)):
            planned(f"at {number}", self)


def test_a_part_without_progress_keeps_the_count(app: Flask, plan: Plan) -> None:
    suspend_once = iter([True, False, False, False])

    def suspend_or_fail(workflow: Any) -> None:
        if next(suspend_once):
            workflow.suspend()
        boom()

    plan["at 0"] = raising(Boom())
    workflow = fail_again(start(PartsFlow), 1)
    plan["at 0"] = suspend_or_fail

    fail_again(workflow, 3)

    assert [each.outcome for each in workflow.execution_history] == [
        "reattempted",
        "continued",
        "reattempted",
        "failed",
    ]


def test_an_attempt_that_its_worker_survives_begins_the_count_of_deaths_anew(app: Flask, plan: Plan) -> None:
    workflow = start(PlainFlow)
    db.session.execute(text("UPDATE geneva_step_executions SET death_reattempts = 2"))
    db.session.commit()
    plan["one"] = lambda running: running.reattempt()

    perform_next_step(workflow)

    assert workflow.execution_history[-1].death_reattempts == 0


def test_an_operators_resume_of_a_step_that_keeps_its_cursor_begins_the_count_of_errors_anew(
    app: Flask, plan: Plan
) -> None:
    workflow = start(PartsFlow)
    plan["at 1"] = boom
    fail_again(workflow, 4)
    assert (reload(workflow).state, workflow.execution_history[-1].error_reattempts) == ("paused", 2)

    workflow.resume()
    db.session.commit()

    again = workflow.execution_history[-1]
    assert (again.cursor_value, again.error_reattempts) == (1, 0)
