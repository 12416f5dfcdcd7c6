"""Resumable steps whose body a test puts in, and parcels for them to go through."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import Any

from sqlalchemy import Date, ForeignKey, String, UniqueConstraint, select
from sqlalchemy.orm import Mapped, mapped_column, relationship

from flask_geneva import IterableStep, Workflow, resumable_step, step
from flask_geneva.engine.transactions import open_executions
from tests.engine.flows import planned, reload, run_job, start
from tests.harness.models import Model, Order, db, write_down

Body = Callable[[Any, IterableStep], Any]


class Parcel(Model):
    """A record to iterate over."""

    __tablename__ = "parcels"
    __table_args__ = (UniqueConstraint("order_id", "position"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    position: Mapped[int]
    code: Mapped[str] = mapped_column(String(50), unique=True)
    sent_on: Mapped[date] = mapped_column(Date, default=lambda: date(2026, 1, 1))
    tracking: Mapped[str | None] = mapped_column(String(50), unique=True)
    state: Mapped[str] = mapped_column(String(20), default="packed")
    labels: Mapped[list[Label]] = relationship(cascade="all, delete-orphan")


class Label(Model):
    """One of a parcel's labels, so that a join repeats the parcel."""

    __tablename__ = "labels"

    id: Mapped[int] = mapped_column(primary_key=True)
    parcel_id: Mapped[int] = mapped_column(ForeignKey("parcels.id"))


class IteratedFlow(Workflow[Order]):
    """A resumable step that does what the test says, and one thing more."""

    @resumable_step
    def one(self, it: IterableStep) -> None:
        planned("body", self, it)

    @step
    def two(self) -> None:
        write_down(self)


class ThriceFlow(Workflow[Order]):
    """At most three iterations at a time."""

    @resumable_step(max_iterations=3)
    def one(self, it: IterableStep) -> None:
        planned("body", self, it)

    @step
    def two(self) -> None:
        write_down(self)


class MinuteFlow(Workflow[Order]):
    """At most a minute at a time."""

    @resumable_step(max_runtime=timedelta(minutes=1))
    def one(self, it: IterableStep) -> None:
        planned("body", self, it)


class HoursFlow(Workflow[Order]):
    """At most some hours at a time."""

    @resumable_step(max_runtime=timedelta(hours=3))
    def one(self, it: IterableStep) -> None:
        planned("body", self, it)


class ParcelFlow(Workflow[Order]):
    """Goes through the order's parcels, two at a time."""

    @resumable_step(max_iterations=2)
    def one(self, it: IterableStep) -> None:
        for parcel in it.iterate_over_records(parcels_of(self.hero)):
            write_down(self, parcel.code)


def parcels_of(order: Order) -> Any:
    """The order's parcels."""
    return select(Parcel).where(Parcel.order_id == order.id)


def pack(order: Order, codes: Iterable[str]) -> list[Parcel]:
    """Add parcels to the order, in this order."""
    parcels = [Parcel(order_id=order.id, position=number, code=code) for number, code in enumerate(codes)]
    db.session.add_all(parcels)
    db.session.commit()
    return parcels


def over(items: Iterable[Any], **options: Any) -> Body:
    """A body that writes each item down; ``at`` is called with the workflow and the item after that."""
    at = options.pop("at", lambda running, item: None)

    def body(running: Any, it: IterableStep) -> None:
        for item in it.iterate_over(items, **options):
            write_down(running, str(item))
            at(running, item)

    return body


def begun(plan: dict[str, Any], body: Body, workflow_class: type[Workflow[Any]] = IteratedFlow) -> Workflow[Any]:
    """Create a workflow whose resumable step has this body."""
    plan["body"] = body
    return start(workflow_class)


def run_one(workflow: Workflow[Any], **options: Any) -> Workflow[Any]:
    """Run the job of the execution that is open, and no further."""
    standing = open_executions(db.session(), workflow.id)
    db.session.rollback()
    run_job(standing[0].id, **{"ignores_time": True, **options})
    return reload(workflow)


def run_all(workflow: Workflow[Any], **options: Any) -> Workflow[Any]:
    """Run job after job, as a worker would, until none is open."""
    for _ in range(50):
        if reload(workflow).current_execution is None or workflow.state not in ("ready", "performing"):
            return workflow
        run_one(workflow, **options)
    raise AssertionError(f"{workflow!r} does not end: {workflow.explain()}")


def outcomes(workflow: Workflow[Any]) -> list[tuple[str, Any]]:
    """How each execution of the step ended, and with which cursor."""
    return [(str(each.outcome), each.cursor_value) for each in workflow.execution_history if each.step_name == "one"]
