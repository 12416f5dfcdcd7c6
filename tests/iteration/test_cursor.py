"""What a step does with its cursor by hand: set, advance, checkpoint, skip_to, suspend."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from flask_geneva import CursorTooLarge, InvalidStateError, IterableStep, PayloadNotSerializable, StepExecution
from flask_geneva.testing import assert_cursor, assert_iterations, run_iterations, speedrun
from tests.engine.elsewhere import Ledger, Plan, elsewhere
from tests.engine.flows import reload
from tests.harness.models import db, write_down, written_down
from tests.iteration.flows import ThriceFlow, begun, outcomes, over, run_all, run_one


def stored_cursor() -> Any:
    """The cursor of the only execution as another process sees it."""
    with elsewhere():
        return db.session.scalars(select(StepExecution)).one().cursor_value


def test_a_step_sees_every_item_in_order_in_one_execution(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-01
    workflow = run_all(begun(plan, over("abcde")))

    assert ledger(workflow) == ["a", "b", "c", "d", "e", "two"]
    assert outcomes(workflow) == [("success", 5)]
    assert workflow.state == "finished"


def test_a_new_step_has_no_cursor_and_is_neither_resumed_nor_advanced(app: Flask, plan: Plan) -> None:
    # RES-02, RES-07, RES-09
    seen: list[Any] = []

    def body(running: Any, it: IterableStep) -> None:
        seen.append((it.cursor, it.resumed, it.advanced, it.iterations))
        it.set("x")
        seen.append((it.cursor, it.resumed, it.advanced, it.iterations))

    run_one(begun(plan, body))

    assert seen == [(None, False, False, 0), ("x", False, True, 1)]


def test_set_is_seen_by_others_while_the_step_runs(app: Flask, plan: Plan) -> None:
    # RES-03
    seen: list[Any] = []

    def body(running: Any, it: IterableStep) -> None:
        write_down(running, "with the cursor")
        it.set({"page": 7})
        seen.extend([stored_cursor(), written_down(running.id)])

    run_one(begun(plan, body))

    assert seen == [{"page": 7}, ["with the cursor"]]


def test_set_looks_whether_to_stop(app: Flask, plan: Plan) -> None:
    # RES-03
    def body(running: Any, it: IterableStep) -> None:
        for number in range((it.cursor or 0) + 1, 10):
            it.set(number)

    workflow = run_one(begun(plan, body, ThriceFlow))

    assert outcomes(workflow) == [("continued", 3), ("None", 3)]


def test_advance_counts_from_where_the_cursor_is(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-04
    def body(running: Any, it: IterableStep) -> None:
        if it.cursor is None:
            it.set(0)
        while it.cursor < 5:
            write_down(running, f"page {it.cursor}")
            it.advance()

    workflow = run_all(begun(plan, body))

    assert ledger(workflow) == [*(f"page {number}" for number in range(5)), "two"]


@pytest.mark.parametrize("cursor", ["7", None, True, 1.5])
def test_only_a_whole_number_advances(app: Flask, plan: Plan, cursor: Any) -> None:
    # RES-05
    refused: list[str] = []

    def body(running: Any, it: IterableStep) -> None:
        if cursor is not None:
            it.set(cursor)
        with pytest.raises(InvalidStateError) as caught:
            it.advance()
        refused.append(str(caught.value))

    run_one(begun(plan, body))

    assert f"Cannot advance the cursor {cursor!r}: advance() requires an integer cursor" in refused[0]


def test_checkpoint_counts_and_commits_what_the_step_wrote(app: Flask, plan: Plan) -> None:
    # RES-06, RES-13
    seen: list[Any] = []

    def body(running: Any, it: IterableStep) -> None:
        write_down(running, "before")
        it.checkpoint()
        seen.extend([written_down(running.id), it.iterations, stored_cursor()])

    workflow = run_one(begun(plan, body))

    assert seen == [["before"], 1, None]
    assert workflow.execution_history[0].completed_iterations == 1


def test_a_successor_is_resumed(app: Flask, plan: Plan) -> None:
    # RES-07
    seen: list[bool] = []

    def body(running: Any, it: IterableStep) -> None:
        seen.append(it.resumed)
        for _ in it.iterate_over(range(4)):
            pass

    run_all(begun(plan, body, ThriceFlow))

    assert seen == [False, True]


@pytest.mark.parametrize("wait", [None, timedelta(hours=2), 7200])
def test_skip_to_ends_the_execution_and_its_successor_goes_on_there(
    app: Flask, plan: Plan, ledger: Ledger, wait: Any
) -> None:
    # RES-10, RES-11, RES-13
    def body(running: Any, it: IterableStep) -> None:
        write_down(running, f"from {it.cursor}")
        if it.cursor is None:
            it.skip_to("there", wait=wait)
            write_down(running, "never")

    workflow = run_one(begun(plan, body))

    first, second = workflow.execution_history
    assert (first.state, first.outcome, first.cursor_value, first.completed_iterations) == (
        "completed",
        "continued",
        "there",
        0,
    )
    assert (second.state, second.cursor_value) == ("scheduled", "there")
    waited = second.scheduled_for - first.finished_at if first.finished_at else None
    assert waited == (timedelta(hours=2) if wait else timedelta(0))
    run_all(workflow)
    assert ledger(workflow) == ["from None", "from there", "two"]


@pytest.mark.parametrize("wait", [-1, "soon", True, float("nan")])
def test_skip_to_refuses_what_is_no_duration_and_moves_nothing(app: Flask, plan: Plan, wait: Any) -> None:
    def body(running: Any, it: IterableStep) -> None:
        it.skip_to("there", wait=wait)

    workflow = run_one(begun(plan, body))

    assert outcomes(workflow) == [("failed", None)]
    assert "skip_to(wait=...)" in str(workflow.execution_history[0].error_message)


def test_skip_to_and_suspend_also_end_a_run_that_has_no_limits(app: Flask, plan: Plan) -> None:
    # RES-12
    def body(running: Any, it: IterableStep) -> None:
        if it.cursor is None:
            it.skip_to(1)
        if it.cursor == 1:
            it.set(2)
            it.suspend()

    workflow = begun(plan, body)
    speedrun(workflow)

    assert outcomes(workflow) == [("continued", 1), ("continued", 2), ("success", 2)]


def test_suspend_goes_on_from_the_last_checkpoint(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-54, RES-56
    def suspend_once(running: Any, item: Any) -> None:
        if item == 2 and len(running.execution_history) == 1:
            running.suspend()

    workflow = run_all(begun(plan, over(range(4), at=suspend_once)))

    assert outcomes(workflow) == [("continued", 2), ("success", 4)]
    # The verb keeps what the step wrote, as every verb does; the item whose cursor was not stored comes again.
    assert ledger(workflow) == ["0", "1", "2", "2", "3", "two"]


@pytest.mark.parametrize("wait", [timedelta(minutes=5), 300])
def test_suspend_may_wait(app: Flask, plan: Plan, wait: Any) -> None:
    # RES-55
    workflow = run_one(begun(plan, lambda running, it: it.suspend(wait=wait)))

    first, second = workflow.execution_history
    assert first.finished_at is not None
    assert second.scheduled_for - first.finished_at == timedelta(minutes=5)


def test_the_object_says_where_it_is(app: Flask, plan: Plan) -> None:
    # RES-14
    seen: list[str] = []

    def body(running: Any, it: IterableStep) -> None:
        it.total = 8
        it.set("x")
        seen.append(repr(it))

    run_one(begun(plan, body))

    assert seen == ["<IterableStep one at 'x', 1 of 8 iterations>"]


def test_a_cursor_above_the_limit_pauses_the_workflow_and_names_the_setting(
    build_app: Callable[..., Flask], plan: Plan
) -> None:
    # RES-26
    with build_app(GENEVA_MAX_CURSOR_SIZE=1024).app_context():
        workflow = begun(plan, lambda running, it: it.set("x" * 1100))

        with pytest.raises(CursorTooLarge, match="GENEVA_MAX_CURSOR_SIZE"):
            speedrun(workflow)

        assert (workflow.state, outcomes(workflow)) == ("paused", [("failed", None)])


@pytest.mark.parametrize(("limit", "size"), [(1024, 100), (None, 256 * 1024)])
def test_a_cursor_below_the_limit_or_without_one_is_stored(
    build_app: Callable[..., Flask], plan: Plan, limit: int | None, size: int
) -> None:
    # RES-27
    with build_app(GENEVA_MAX_CURSOR_SIZE=limit).app_context():
        workflow = begun(plan, lambda running, it: it.set("x" * size))

        run_iterations(workflow, 1)

        assert_cursor(workflow, "x" * size)
        assert_iterations(workflow, 1)


def test_a_cursor_is_moved_by_the_step_alone(app: Flask, plan: Plan) -> None:
    # RES-28: what cannot be assigned needs no limit.
    workflow = run_one(begun(plan, over("ab")))

    with pytest.raises(AttributeError):
        workflow.execution_history[0].cursor_value = "x"  # type: ignore[misc]


def test_a_cursor_that_cannot_be_stored_leaves_the_last_one(app: Flask, plan: Plan) -> None:
    # RES-25
    seen: list[Any] = []

    def body(running: Any, it: IterableStep) -> None:
        it.set(1)
        with pytest.raises(PayloadNotSerializable):
            it.set(object())
        seen.append(it.cursor)
        it.checkpoint()

    workflow = run_one(begun(plan, body))

    assert (seen, outcomes(workflow)) == ([1], [("success", 1)])


def test_the_helpers_of_tests_tell_what_is_otherwise(app: Flask, plan: Plan) -> None:
    # TST-11, TST-12
    workflow = begun(plan, over("abc"))

    run_iterations(workflow, 2)

    assert_cursor(workflow, 2)
    assert_iterations(workflow, 2)
    with pytest.raises(AssertionError, match="is 2, not 3"):
        assert_cursor(workflow, 3)
    with pytest.raises(AssertionError, match="has made 2 iterations, not 3"):
        assert_iterations(workflow, 3)
    speedrun(workflow)
    assert reload(workflow).state == "finished"
