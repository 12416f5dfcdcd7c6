"""Workflows whose processes are killed before each of their requests to the database, one request a workflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select

from flask_geneva import StepExecution, Workflow, cancel_if, step
from tests.harness.dying import die_at
from tests.harness.invariants import broken
from tests.harness.models import Order, db, write_down
from tests.harness.waiting import eventually
from tests.harness.workers import Workers

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300), pytest.mark.databases("postgresql", "mariadb")]

# As many as three steps straight on, one of which claims and settles a signal, ask for; beyond them nobody dies.
MOMENTS = range(1, 31)
LEDGER = ["one", "two", "three"]


class DyingFlow(Workflow[Order]):
    """Its first attempt dies at the moment that its order's amount says, counted from its first conditions."""

    @cancel_if
    def dies(self) -> bool:
        if len(self.execution_history) == 1 and self.hero.state == "mortal":
            die_at(self.hero.amount, db.engine)
        return False

    @step
    def one(self) -> None:
        write_down(self)
        db.session.flush()
        self.signal("told", idempotency_key="once")

    @step(wait_for="go")
    def two(self) -> None:
        write_down(self)

    @step(wait_for="told")
    def three(self) -> None:
        write_down(self)


@pytest.mark.parametrize("run_ahead", [30, 0])
def test_a_workflow_killed_at_any_moment(
    queueing_app: Flask,
    workers: Workers,
    ledger: Callable[[Any], list[str]],
    record_property: Callable[[str, object], None],
    run_ahead: int,
) -> None:
    orders = [Order(amount=moment, state="mortal") for moment in MOMENTS]
    db.session.add_all(orders)
    flows = [DyingFlow.create(hero=order) for order in orders]
    for flow in flows:
        flow.signal("go", idempotency_key="early")
    db.session.commit()

    worker = workers.start(modules=[__name__], config={"GENEVA_RUN_AHEAD": run_ahead})
    eventually(lambda: ongoing() == 0, within=200, otherwise=lambda: worker.output[-5000:])

    assert {flow.id: ledger(flow) for flow in flows} == {flow.id: LEDGER for flow in flows}
    assert broken() == []
    recovered = StepExecution.outcome == "recovered"
    deaths = db.session.scalar(select(func.count()).select_from(StepExecution).where(recovered)) or 0
    record_property(f"steps killed at {len(MOMENTS)} moments, run ahead {run_ahead} s", f"{deaths} deaths recovered")
    assert deaths > 5


def ongoing() -> int:
    db.session.rollback()
    return db.session.scalar(select(func.count()).select_from(Workflow).where(Workflow.is_ongoing)) or 0
