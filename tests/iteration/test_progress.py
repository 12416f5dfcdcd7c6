"""How the progress of a resumable step is put into words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select

from flask_geneva import IterableStep, Workflow, resumable_step
from flask_geneva.engine.progress import progress_of
from flask_geneva.testing import perform_next_step, run_iterations
from tests.engine.elsewhere import Plan
from tests.engine.flows import reload, start
from tests.harness.models import Order, db
from tests.iteration.flows import begun, run_one

START = datetime(2026, 5, 1, tzinfo=UTC)


class ProgressFlow(Workflow[Order]):
    """Goes through ten items and says so."""

    @resumable_step
    def count(self, it: IterableStep) -> None:
        it.total = 10
        for _ in it.iterate_over(range(10)):
            pass


def attempt(done: int | None, seconds: float | None, total: int | None = None) -> Any:
    updated = START if seconds is None else START + timedelta(seconds=seconds)
    started = None if seconds is None else START
    return SimpleNamespace(
        items_done=done,
        iteration_total=total,
        started_at=started,
        finished_at=None,
        updated_at=updated,
    )


@pytest.mark.parametrize(
    ("found", "before", "words"),
    [
        (attempt(None, 5), 0, "0 iterations"),
        (attempt(0, 5), 0, "0 iterations"),
        (attempt(1, 0), 0, "1 iteration"),
        (attempt(1, None), 0, "1 iteration"),
        (attempt(300, 25), 0, "300 iterations, 12 per second"),
        (attempt(300, 25, 1000), 0, "300 of 1,000 iterations, 30%, 12 per second"),
        (attempt(2500, 200, 10_000), 2200, "2,500 of 10,000 iterations, 25%, 1.5 per second"),
        (attempt(3, 60), 0, "3 iterations, 3.0 per minute"),
        (attempt(3, 7200), 0, "3 iterations, 1.5 per hour"),
        (attempt(12, 6, 10), 0, "12 of 10 iterations, 100%, 2.0 per second"),
        (attempt(1, 1, 1), 0, "1 of 1 iteration, 100%, 1.0 per second"),
        (attempt(5, 1, 0), 0, "5 iterations, 5.0 per second"),
        (attempt(5, None, 10), 5, "5 of 10 iterations, 50%"),
        (attempt(4, 2, 10), 9, "4 of 10 iterations, 40%, 2.0 per second"),
    ],
)
def test_progress_in_words(found: Any, before: int, words: str) -> None:
    assert str(progress_of(found, attempt(before, None))) == words
    assert before or str(progress_of(found)) == words


def test_explain_counts_the_whole_chain(app: Flask) -> None:
    workflow = start(ProgressFlow)
    run_iterations(workflow, 4)
    run_iterations(workflow, 2)

    told = reload(workflow).explain()

    assert "count is due" in told
    assert "(6 of 10 iterations, 60%, cursor 6)" in told


class PacedProgressFlow(Workflow[Order]):
    """Goes through ten items with a checkpoint after every fourth, and begins anew once."""

    @resumable_step
    def count(self, it: IterableStep) -> None:
        it.total = 10
        for number in it.iterate_over(range(10), checkpoint_every=4):
            if number == 8 and self.hero.state == "again":
                self.hero.state = "placed"
                self.reattempt(rewind=True)


def test_the_total_counts_items_where_checkpoints_are_few(app: Flask) -> None:
    workflow = start(PacedProgressFlow)

    run_iterations(workflow, 2)

    assert "(8 of 10 iterations, 80%, cursor 8)" in reload(workflow).explain()


def test_a_step_that_begins_anew_has_done_nothing_yet(app: Flask) -> None:
    workflow = start(PacedProgressFlow, state="again")
    perform_next_step(workflow)
    assert "iterations" not in reload(workflow).explain()

    run_iterations(workflow, 1)

    assert "(4 of 10 iterations, 40%, cursor 4)" in reload(workflow).explain()


class BatchedProgressFlow(Workflow[Order]):
    """Goes through records in batches, then makes checkpoints by hand."""

    @resumable_step
    def count(self, it: IterableStep) -> None:
        numbers = select(Order).where(Order.amount == self.hero.id)
        it.total = db.session.scalar(select(func.count()).select_from(numbers.subquery()))
        for _ in it.iterate_over_batches(numbers, batch_size=3):
            pass
        it.checkpoint()


def test_the_total_counts_records_where_they_come_in_batches(app: Flask) -> None:
    workflow = start(BatchedProgressFlow)
    db.session.add_all([Order(amount=workflow.hero.id) for _ in range(7)])

    run_iterations(workflow, 2)
    assert "(6 of 7 iterations, 86%" in reload(workflow).explain()
    perform_next_step(workflow)

    assert [each.items_done for each in workflow.execution_history] == [6, 8]


@pytest.mark.parametrize("total", [-1, True, "3", 2.0])
def test_a_total_that_is_no_number_of_items_is_refused(app: Flask, plan: Plan, total: Any) -> None:
    def body(running: Any, it: IterableStep) -> None:
        it.total = total

    workflow = run_one(begun(plan, body))

    assert "The total of a resumable step is a whole number" in str(workflow.execution_history[0].error_message)


def test_explain_tells_how_far_a_paused_step_is(app: Flask, counting: Callable[..., Any]) -> None:
    workflow = start(ProgressFlow)
    run_iterations(workflow, 4)
    workflow.pause()

    assert "(4 of 10 iterations, 40%, cursor 4); resume lets it go on" in workflow.explain()
