"""How the progress of a resumable step is put into words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask

from flask_geneva import IterableStep, Workflow, resumable_step
from flask_geneva.engine.progress import progress_of
from flask_geneva.testing import run_iterations
from tests.engine.flows import reload, start
from tests.harness.models import Order

START = datetime(2026, 5, 1, tzinfo=UTC)


class ProgressFlow(Workflow[Order]):
    """Goes through ten items and says so."""

    @resumable_step
    def count(self, it: IterableStep) -> None:
        it.total = 10
        for _ in it.iterate_over(range(10)):
            pass


def attempt(iterations: int, seconds: float | None, total: int | None = None) -> Any:
    updated = START if seconds is None else START + timedelta(seconds=seconds)
    started = None if seconds is None else START
    return SimpleNamespace(
        completed_iterations=iterations,
        iteration_total=total,
        started_at=started,
        finished_at=None,
        updated_at=updated,
    )


@pytest.mark.parametrize(
    ("found", "before", "words"),
    [
        (attempt(0, 5), 0, "0 iterations"),
        (attempt(1, 0), 0, "1 iteration"),
        (attempt(1, None), 0, "1 iteration"),
        (attempt(300, 25), 0, "300 iterations, 12 per second"),
        (attempt(300, 25, 1000), 0, "300 of 1,000 iterations, 30%, 12 per second"),
        (attempt(300, 200, 10_000), 2200, "2,500 of 10,000 iterations, 25%, 1.5 per second"),
        (attempt(3, 60), 0, "3 iterations, 3.0 per minute"),
        (attempt(3, 7200), 0, "3 iterations, 1.5 per hour"),
        (attempt(12, 6, 10), 0, "12 of 10 iterations, 100%, 2.0 per second"),
        (attempt(1, 1, 1), 0, "1 of 1 iteration, 100%, 1.0 per second"),
        (attempt(5, 1, 0), 0, "5 iterations, 5.0 per second"),
    ],
)
def test_progress_in_words(found: Any, before: int, words: str) -> None:
    assert str(progress_of(found, before=before)) == words


def test_explain_counts_the_whole_chain(app: Flask) -> None:
    workflow = start(ProgressFlow)
    run_iterations(workflow, 4)
    run_iterations(workflow, 2)

    told = reload(workflow).explain()

    assert "count is due" in told
    assert "(6 of 10 iterations, 60%, cursor 6)" in told


def test_explain_tells_how_far_a_paused_step_is(app: Flask, counting: Callable[..., Any]) -> None:
    workflow = start(ProgressFlow)
    run_iterations(workflow, 4)
    workflow.pause()

    assert "(4 of 10 iterations, 40%, cursor 4); resume lets it go on" in workflow.explain()
