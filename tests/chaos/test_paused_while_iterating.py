"""A resumable step in a real worker, while operators pause and resume it as fast as they can."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from flask_geneva import InvalidStateError, IterableStep, Workflow, resumable_step, step
from tests.harness.models import Order, db, write_down
from tests.harness.waiting import eventually
from tests.harness.workers import Workers

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]

ITEMS = 150
LEDGER = [*(f"item {number}" for number in range(ITEMS)), "after"]


class HarassedCountFlow(Workflow[Order]):
    """Counts, with a short rest at each item."""

    pace: Any = 1

    @resumable_step
    def count(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(ITEMS), checkpoint_every=self.pace):
            time.sleep(0.005)
            write_down(self, f"item {number}")

    @step
    def after(self) -> None:
        write_down(self)


class HarassedSeldomFlow(HarassedCountFlow):
    """Makes a checkpoint several times a second."""

    pace = timedelta(seconds=0.1)


@pytest.mark.parametrize("workflow_class", [HarassedCountFlow, HarassedSeldomFlow])
def test_pauses_and_resumes_at_any_moment_lose_and_repeat_nothing(
    queueing_app: Flask,
    workers: Workers,
    ledger: Callable[[Any], list[str]],
    record_property: Callable[[str, object], None],
    workflow_class: type[Workflow[Order]],
) -> None:
    order = Order()
    db.session.add(order)
    workflow = workflow_class.create(hero=order)
    db.session.commit()
    worker = workers.start("--processes", "2", modules=[__name__])
    chance = random.Random(4)

    def press() -> bool:
        """A verb, whichever fits; whether the workflow has ended."""
        time.sleep(chance.uniform(0, 0.03))
        db.session.rollback()
        with suppress(InvalidStateError):
            (workflow.resume if workflow.state == "paused" else workflow.pause)()
        db.session.commit()
        return not workflow.is_ongoing

    eventually(press, within=180, otherwise=lambda: worker.output[-5000:])

    assert ledger(workflow) == LEDGER
    outcomes = [each.outcome for each in workflow.execution_history]
    assert "workflow_paused" in outcomes
    record_property(
        workflow_class.__name__, f"{outcomes.count('workflow_paused')} pauses in {len(outcomes)} executions"
    )
