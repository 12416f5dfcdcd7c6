"""Whatever ends an execution, the work of its items in the database and the cursor stay together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from flask_geneva import IterableStep, StepExecution, on_exception
from tests.engine.elsewhere import Ledger, Plan, elsewhere
from tests.engine.flows import boom, planned, reload
from tests.harness.models import db, write_down
from tests.iteration.flows import Body, IteratedFlow, begun, outcomes, over, run_all, run_one

SELDOM = [3, timedelta(hours=1)]

ENDINGS: dict[str, Callable[[Any], Any]] = {
    "suspend": lambda running: running.suspend(),
    "pause": lambda running: running.pause(),
    "reattempt": lambda running: running.reattempt(),
}


def ending_before(position: int, end: Callable[[Any], Any], **options: Any) -> Body:
    """Ends the execution once, before the work on the item at this position has begun."""
    ended: list[int] = []

    def body(running: Any, it: IterableStep) -> None:
        for item in it.iterate_over(range(7), **options):
            if item == position and not ended:
                ended.append(item)
                end(running)
            write_down(running, str(item))

    return body


@pytest.mark.parametrize("every", [1, *SELDOM])
@pytest.mark.parametrize("verb", ENDINGS)
@pytest.mark.parametrize("position", [0, 1, 4, 6])
def test_items_that_were_done_before_an_ending_are_not_done_again(
    app: Flask, plan: Plan, ledger: Ledger, every: Any, verb: str, position: int
) -> None:
    workflow = run_one(begun(plan, ending_before(position, ENDINGS[verb], checkpoint_every=every)))
    if verb == "pause":
        workflow.resume()
        db.session.commit()

    run_all(workflow)

    assert ledger(workflow) == [*map(str, range(7)), "two"]


@pytest.mark.parametrize("every", SELDOM)
def test_a_cursor_that_is_stored_by_an_ending_counts_as_progress(app: Flask, plan: Plan, every: Any) -> None:
    workflow = run_one(begun(plan, ending_before(2, ENDINGS["suspend"], checkpoint_every=every)))

    assert outcomes(workflow) == [("continued", 2), ("None", 2)]
    assert workflow.execution_history[-1].stalled_runs == 0


@pytest.mark.parametrize("end", ["rollback", "close"])
@pytest.mark.parametrize("every", SELDOM)
def test_a_step_that_takes_back_items_between_two_checkpoints_does_them_again(
    app: Flask, plan: Plan, ledger: Ledger, every: Any, end: str
) -> None:
    taken_back: list[int] = []

    def body(running: Any, it: IterableStep) -> None:
        for item in it.iterate_over(range(6), checkpoint_every=every):
            write_down(running, str(item))
            if item == 4 and not taken_back:
                taken_back.append(item)
                getattr(db.session, end)()

    workflow = run_one(begun(plan, body))
    assert "rolled back or closed its transaction" in str(workflow.execution_history[0].error_message)

    workflow.resume()
    db.session.commit()
    run_all(workflow)

    assert ledger(workflow) == [*map(str, range(6)), "two"]


@pytest.mark.parametrize("every", SELDOM)
def test_a_step_that_commits_between_two_checkpoints_goes_on(
    app: Flask, plan: Plan, ledger: Ledger, every: Any
) -> None:
    workflow = run_all(begun(plan, over(range(6), checkpoint_every=every, at=lambda *_: db.session.commit())))

    assert ledger(workflow) == [*map(str, range(6)), "two"]
    assert outcomes(workflow) == [("success", 6)]


@pytest.mark.parametrize("every", [1, *SELDOM])
def test_a_savepoint_takes_back_one_item_alone(app: Flask, plan: Plan, ledger: Ledger, every: Any) -> None:
    def body(running: Any, it: IterableStep) -> None:
        for item in it.iterate_over(range(6), checkpoint_every=every):
            with suppress(ZeroDivisionError), db.session.begin_nested():
                write_down(running, str(item))
                db.session.flush()
                1 // (item - 4)

    workflow = run_all(begun(plan, body))

    assert ledger(workflow) == ["0", "1", "2", "3", "5", "two"]
    assert outcomes(workflow) == [("success", 6)]


def test_a_step_may_take_back_the_item_in_hand(app: Flask, plan: Plan, ledger: Ledger) -> None:
    def body(running: Any, it: IterableStep) -> None:
        for item in it.iterate_over(range(4)):
            write_down(running, str(item))
            if item == 2:
                db.session.rollback()

    workflow = run_all(begun(plan, body))

    assert ledger(workflow) == ["0", "1", "3", "two"]


class HandledIterationFlow(IteratedFlow):
    """Its errors are decided by a handler, and a hook comes after each attempt."""

    @on_exception
    def decide(self, error: Exception) -> None:
        planned("handler", self)

    def after_step_execution(self, execution: StepExecution) -> None:
        planned("after", self)


@pytest.mark.parametrize("every", [1, *SELDOM])
@pytest.mark.parametrize("verb", ENDINGS)
def test_a_handler_goes_on_from_the_last_checkpoint(
    app: Flask, plan: Plan, ledger: Ledger, every: Any, verb: str
) -> None:
    plan["handler"] = ENDINGS[verb]
    workflow = run_one(begun(plan, ending_before(4, boom, checkpoint_every=every), HandledIterationFlow))
    if verb == "pause":
        workflow.resume()
        db.session.commit()

    run_all(workflow)

    assert ledger(workflow) == [*map(str, range(7)), "two"]
    assert workflow.execution_history[0].cursor_value == {1: 4, 3: 3}.get(every)


@pytest.mark.parametrize("every", [1, *SELDOM])
@pytest.mark.parametrize("verb", ENDINGS)
def test_a_hook_that_ends_the_step_keeps_its_place(
    app: Flask, plan: Plan, ledger: Ledger, every: Any, verb: str
) -> None:
    def body(running: Any, it: IterableStep) -> None:
        for item in it.iterate_over(range(7), checkpoint_every=every):
            if item == 5 and not it.resumed:
                break
            write_down(running, str(item))

    def once(running: Any) -> None:
        if len(running.execution_history) == 1:
            ENDINGS[verb](running)

    plan["after"] = once
    workflow = run_one(begun(plan, body, HandledIterationFlow))
    if verb == "pause":
        workflow.resume()
        db.session.commit()

    run_all(workflow)

    assert ledger(workflow) == [*map(str, range(7)), "two"]


KILL = {
    "postgresql": "SELECT pg_terminate_backend({})",
    "mariadb": "KILL {}",
    "mysql": "KILL {}",
}
WHO = {"postgresql": "SELECT pg_backend_pid()", "mariadb": "SELECT connection_id()", "mysql": "SELECT connection_id()"}


def lose_the_connection() -> None:
    """End the session's connection at the server."""
    kind = db.engine.dialect.name
    backend = db.session.scalar(text(WHO[kind]))
    with elsewhere():
        db.session.execute(text(KILL[kind].format(backend)))


@pytest.mark.databases("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize(
    ("every", "position"), [(1, 0), (1, 3), (1, 5), (3, 2), (3, 5), (4, 5), (timedelta(hours=1), 5)]
)
def test_a_connection_that_is_lost_at_a_checkpoint_costs_what_came_after_the_last_one(
    app: Flask, plan: Plan, ledger: Ledger, every: Any, position: int
) -> None:
    lost: list[int] = []

    def lose(running: Any, item: int) -> None:
        if item == position and not lost:
            lost.append(item)
            db.session.flush()
            lose_the_connection()

    workflow = run_one(begun(plan, over(range(6), checkpoint_every=every, at=lose)))
    first = workflow.execution_history[0]
    assert (first.outcome, first.details["reattempt_reason"]) == ("reattempted", "transient_db_error")

    run_all(workflow)

    assert ledger(workflow) == [*map(str, range(6)), "two"]


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_a_step_cannot_swallow_the_loss_of_a_checkpoint(app: Flask, plan: Plan, ledger: Ledger) -> None:
    lost: list[int] = []

    def body(running: Any, it: IterableStep) -> None:
        for item in range(it.cursor or 0, 4):
            write_down(running, str(item))
            if item == 2 and not lost:
                lost.append(item)
                db.session.flush()
                lose_the_connection()
            try:
                it.set(item + 1)
            except Exception:
                db.session.rollback()

    workflow = run_all(begun(plan, body))

    assert ledger(workflow) == ["0", "1", "2", "3", "two"]
    assert workflow.execution_history[0].outcome == "reattempted"


def test_a_step_that_is_suspended_before_its_first_checkpoint_is_continued_all_the_same(app: Flask, plan: Plan) -> None:
    def body(running: Any, it: IterableStep) -> None:
        if not it.resumed:
            running.suspend()

    workflow = run_all(begun(plan, body))

    first, second, _ = workflow.execution_history
    assert (first.outcome, second.continues_from_id) == ("continued", first.id)


def test_checkpoints_without_a_cursor_are_gone_on_from_by_a_resume(app: Flask, plan: Plan, ledger: Ledger) -> None:
    def body(running: Any, it: IterableStep) -> None:
        write_down(running, f"resumed: {it.resumed}")
        it.checkpoint()
        if not it.resumed:
            running.pause()

    workflow = run_one(begun(plan, body))
    workflow.resume()
    db.session.commit()
    run_all(workflow)

    assert ledger(workflow) == ["resumed: False", "resumed: True", "two"]
    assert reload(workflow).execution_history[1].continues_from_id == workflow.execution_history[0].id
