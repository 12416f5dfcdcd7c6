"""What stops a resumable step between two items, and that nothing is lost or done twice by it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import insert

from flask_geneva import IterableStep, Workflow
from flask_geneva.engine import iteration
from flask_geneva.engine.run import NoTimeLimit
from flask_geneva.records.tables import step_executions
from flask_geneva.testing import run_iterations, speedrun
from tests.engine.elsewhere import Ledger, Plan, elsewhere, press, pressing
from tests.engine.flows import reload
from tests.harness.models import Order, db, write_down
from tests.iteration.flows import (
    HoursFlow,
    IteratedFlow,
    MinuteFlow,
    ThriceFlow,
    begun,
    outcomes,
    over,
    run_all,
    run_one,
)


def test_max_iterations_cuts_a_step_into_a_chain_of_executions(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-29, RES-31
    workflow = run_all(begun(plan, over(range(10)), ThriceFlow))

    assert outcomes(workflow) == [("continued", 3), ("continued", 6), ("continued", 9), ("success", 10)]
    assert [each.completed_iterations for each in workflow.execution_history[:4]] == [3, 3, 3, 1]
    assert ledger(workflow) == [*map(str, range(10)), "two"]


def test_no_execution_comes_when_all_is_done(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-30, B-54: the reference has an empty execution at the end here.
    workflow = run_all(begun(plan, over(range(6)), ThriceFlow))

    assert outcomes(workflow) == [("continued", 3), ("success", 6)]
    assert ledger(workflow) == [*map(str, range(6)), "two"]


def test_max_runtime_is_looked_at_between_items_only(
    app: Flask, plan: Plan, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    # RES-32
    clock = [0.0]
    monkeypatch.setattr(iteration.time, "monotonic", lambda: clock[0])

    def tick(running: Any, item: Any) -> None:
        clock[0] += 30.0

    workflow = run_all(begun(plan, over("abcde", at=tick), MinuteFlow))

    # Sixty seconds are not more than a minute.
    assert outcomes(workflow) == [("continued", 3), ("success", 5)]
    assert ledger(workflow) == [*"abcde"]


class _Limit(NoTimeLimit):
    """A job's limit that does not ring."""

    seconds = 120.0


@pytest.mark.parametrize("workflow_class", [IteratedFlow, MinuteFlow, HoursFlow])
def test_a_step_that_makes_checkpoints_does_not_run_into_the_limit_of_its_job(
    app: Flask,
    plan: Plan,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    workflow_class: type[Workflow[Order]],
) -> None:
    clock = [0.0]
    monkeypatch.setattr(iteration.time, "monotonic", lambda: clock[0])

    def tick(running: Any, item: Any) -> None:
        clock[0] += 30.0

    workflow = run_all(begun(plan, over(range(7), at=tick), workflow_class), time_limit=_Limit())

    assert [cursor for _, cursor in outcomes(workflow)] == [3, 6, 7]
    assert ledger(workflow)[:7] == [*map(str, range(7))]


def test_a_body_without_checkpoints_is_not_interrupted(app: Flask, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    # RES-32
    clock = [0.0]
    monkeypatch.setattr(iteration.time, "monotonic", lambda: clock[0])

    def body(running: Any, it: IterableStep) -> None:
        clock[0] += 3600.0

    workflow = run_all(begun(plan, body, MinuteFlow), is_stopping=lambda: True)

    assert outcomes(workflow) == [("success", None)]


def test_a_time_that_is_over_before_the_first_item_lets_it_be_done(
    app: Flask, plan: Plan, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(iteration.time, "monotonic", lambda: clock[0])

    def body(running: Any, it: IterableStep) -> None:
        clock[0] += 3600.0
        for item in it.iterate_over("ab"):
            write_down(running, item)

    workflow = run_all(begun(plan, body, MinuteFlow))

    assert outcomes(workflow) == [("continued", 1), ("success", 2)]
    assert ledger(workflow) == ["a", "b"]


def test_a_worker_that_is_to_stop_stops_the_step_at_its_next_checkpoint(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-33
    stopping: list[bool] = []

    def stop_at(running: Any, item: int) -> None:
        if item == 1:
            stopping.append(True)

    workflow = run_one(begun(plan, over(range(4), at=stop_at)), is_stopping=lambda: bool(stopping))

    assert outcomes(workflow) == [("continued", 2), ("None", 2)]
    run_all(workflow)
    assert ledger(workflow) == ["0", "1", "2", "3", "two"]


def test_a_worker_that_is_to_stop_does_not_wait_for_a_checkpoint_that_is_far_away(
    app: Flask, plan: Plan, ledger: Ledger
) -> None:
    stopping: list[bool] = []

    def stop_at(running: Any, item: int) -> None:
        if item == 1:
            stopping.append(True)

    body = over(range(4), at=stop_at, checkpoint_every=timedelta(hours=1))
    workflow = run_one(begun(plan, body), is_stopping=lambda: bool(stopping))

    assert outcomes(workflow) == [("continued", 2), ("None", 2)]
    assert ledger(workflow) == ["0", "1"]


@pytest.mark.parametrize(
    ("verb", "state", "row"),
    [
        ("pause", "paused", ("completed", "workflow_paused", 3)),
        ("cancel", "canceled", ("canceled", "canceled", 3)),
    ],
)
def test_an_operator_comes_before_the_limits(
    app: Flask, plan: Plan, ledger: Ledger, verb: str, state: str, row: tuple[str, str, int]
) -> None:
    # RES-34, RES-35, RES-36
    def press_at(running: Any, item: int) -> None:
        if item == 2:
            press(running.id, verb)

    def body(running: Any, it: IterableStep) -> None:
        for item in it.iterate_over(range(9)):
            if item == 2:
                # Before the item's own write, which on SQLite would keep the operator out.
                pressing(verb)(running)
            write_down(running, str(item))

    workflow = run_one(begun(plan, body, ThriceFlow))

    (execution,) = workflow.execution_history
    assert (execution.state, execution.outcome, execution.cursor_value) == row
    assert (workflow.state, ledger(workflow)) == (state, ["0", "1", "2"])


def test_a_run_without_limits_is_one_execution(app: Flask, plan: Plan) -> None:
    # RES-37, TST-04
    workflow = begun(plan, over(range(10)), ThriceFlow)

    speedrun(workflow)

    assert outcomes(workflow) == [("success", 10)]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_caller_may_set_a_limit_of_its_own(app: Flask, plan: Plan, count: int) -> None:
    # RES-38, TST-11
    workflow = begun(plan, over(range(10)), ThriceFlow)

    execution = run_iterations(workflow, count)

    assert execution is not None
    assert (execution.outcome, execution.cursor_value, execution.completed_iterations) == ("continued", count, count)
    assert execution.successor is not None
    assert execution.successor.state == "scheduled"


def test_a_pause_between_two_parts_loses_nothing(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # B-26
    workflow = run_one(begun(plan, over(range(5)), ThriceFlow))
    job = workflow.current_execution
    assert job is not None
    press(workflow.id, "pause")

    # The job comes all the same.
    run_one(workflow)
    assert (workflow.state, ledger(workflow)) == ("paused", ["0", "1", "2"])
    press(workflow.id, "resume")
    run_all(workflow)

    assert ledger(workflow) == [*map(str, range(5)), "two"]


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("every", [1, 2])
def test_a_pause_at_any_item_loses_nothing(app: Flask, plan: Plan, ledger: Ledger, at: int, every: int) -> None:
    # RES-34, RES-48
    pressed: list[int] = []

    def body(running: Any, it: IterableStep) -> None:
        for item in it.iterate_over(range(5), checkpoint_every=every):
            if item == at and not pressed:
                pressed.append(item)
                it.checkpoint()
                press(running.id, "pause")
            write_down(running, str(item))

    workflow = run_one(begun(plan, body))
    assert workflow.state == "paused"
    press(workflow.id, "resume")
    run_all(workflow)

    assert ledger(workflow) == [*map(str, range(5)), "two"]
    assert workflow.state == "finished"


@pytest.mark.parametrize("limit", range(1, 8))
@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_stop_at_every_position_loses_and_repeats_nothing(
    app: Flask, plan: Plan, ledger: Ledger, limit: int, every: int
) -> None:
    workflow = begun(plan, over(range(7), checkpoint_every=every))

    while reload(workflow).next_step_name == "one":
        run_iterations(workflow, limit)
    run_all(workflow)

    assert ledger(workflow) == [*map(str, range(7)), "two"]


def test_no_row_can_be_open_beside_the_successor(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-43: a unique index keeps a second one out, so there is none to sweep.
    workflow = run_one(begun(plan, over(range(5)), ThriceFlow))
    current = workflow.current_execution
    assert current is not None
    values = {key: getattr(current, key) for key in ("step_name", "scheduled_for", "created_at", "updated_at")}

    with elsewhere(), pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        db.session.execute(insert(step_executions).values(workflow_id=workflow.id, state="scheduled", **values))
    run_all(workflow)

    assert ledger(workflow) == [*map(str, range(5)), "two"]
