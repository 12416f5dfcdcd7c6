"""A resumable step whose process is killed at every moment of its work does each item's work once, in order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, func, select

from flask_geneva import IterableStep, StepExecution, Workflow, resumable_step, step
from tests.harness.dying import die_at
from tests.harness.models import Order, db, write_down
from tests.harness.waiting import eventually
from tests.harness.workers import Workers
from tests.iteration.flows import Parcel

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]

ITEMS = 4
# Three requests an item, and those that end the step and begin and end the next one.
MOMENTS = range(1, 3 * ITEMS + 10)
LEDGER = [*(f"item {number}" for number in range(ITEMS)), "after"]


class DyingCountFlow(Workflow[Order]):
    """Its first attempt dies at the moment that its order's amount says."""

    pace: Any = 1

    @resumable_step
    def count(self, it: IterableStep) -> None:
        moment = self.hero.amount
        if len(self.execution_history) == 1:
            die_at(moment, db.engine)
        for number in it.iterate_over(range(ITEMS), checkpoint_every=self.pace):
            write_down(self, f"item {number}")

    @step
    def after(self) -> None:
        write_down(self)


class DyingPairsFlow(DyingCountFlow):
    """Makes a checkpoint after every second item."""

    pace = 2


class DyingSeldomFlow(DyingCountFlow):
    """Makes one checkpoint, at the end."""

    pace = timedelta(hours=1)


class DyingRecordsFlow(Workflow[Order]):
    """Goes through parcels, of which one goes and one comes meanwhile."""

    @resumable_step
    def count(self, it: IterableStep) -> None:
        moment = self.hero.amount
        if len(self.execution_history) == 1:
            die_at(moment, db.engine)
        of_order = select(Parcel).where(Parcel.order_id == self.hero.id)
        for parcel in it.iterate_over_records(of_order, cursor=(Parcel.order_id, Parcel.position), batch_size=2):
            write_down(self, f"item {parcel.position}")
            if parcel.position == 1:
                db.session.execute(delete(Parcel).where(Parcel.order_id == self.hero.id, Parcel.position == 3))
                db.session.add(Parcel(order_id=self.hero.id, position=9, code=f"late {self.hero.id}"))

    @step
    def after(self) -> None:
        write_down(self)


@pytest.mark.databases("postgresql", "mariadb")
def test_a_step_over_records_that_come_and_go_killed_at_any_moment(
    queueing_app: Flask,
    workers: Workers,
    ledger: Callable[[Any], list[str]],
    record_property: Callable[[str, object], None],
) -> None:
    orders = [Order(amount=moment) for moment in range(1, 46)]
    db.session.add_all(orders)
    db.session.flush()
    for order in orders:
        db.session.add_all([Parcel(order_id=order.id, position=n, code=f"{n} of {order.id}") for n in range(5)])
    workflows = [DyingRecordsFlow.create(hero=order) for order in orders]
    db.session.commit()

    worker = workers.start(modules=[__name__])
    eventually(lambda: unfinished() == 0, within=200, otherwise=lambda: worker.output[-5000:])

    expected = [*(f"item {position}" for position in (0, 1, 2, 4, 9)), "after"]
    assert {workflow.id: ledger(workflow) for workflow in workflows} == {each.id: expected for each in workflows}
    record_property("DyingRecordsFlow: killed at 45 moments", f"{deaths()} deaths recovered")


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("workflow_class", [DyingCountFlow, DyingPairsFlow, DyingSeldomFlow])
def test_a_resumable_step_killed_at_any_moment(
    queueing_app: Flask,
    workers: Workers,
    ledger: Callable[[Any], list[str]],
    record_property: Callable[[str, object], None],
    workflow_class: type[Workflow[Order]],
) -> None:
    orders = [Order(amount=moment) for moment in MOMENTS]
    db.session.add_all(orders)
    workflows = [workflow_class.create(hero=order) for order in orders]
    db.session.commit()

    worker = workers.start(modules=[__name__])
    eventually(lambda: unfinished() == 0, within=200, otherwise=lambda: worker.output[-5000:])

    assert {workflow.id: ledger(workflow) for workflow in workflows} == {each.id: LEDGER for each in workflows}
    record_property(f"{workflow_class.__name__}: killed at {len(MOMENTS)} moments", f"{deaths()} deaths recovered")


def deaths() -> int:
    recovered = select(func.count()).select_from(StepExecution).where(StepExecution.outcome == "recovered")
    found = db.session.scalar(recovered)
    assert found
    return found


def unfinished() -> int:
    db.session.rollback()
    return db.session.scalar(select(func.count()).select_from(Workflow).where(Workflow.is_ongoing)) or 0
