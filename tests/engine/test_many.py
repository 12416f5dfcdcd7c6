"""Many workflows at once: one round trip to Redis, every step once."""

from __future__ import annotations

from collections import Counter

import pytest
from flask import Flask
from sqlalchemy import func, select

from flask_geneva import Geneva, Workflow, step
from tests.harness.models import LedgerEntry, Order, db, write_down
from tests.harness.waiting import eventually
from tests.harness.workers import Workers


class ManyFlow(Workflow[Order]):
    """Leaves two marks."""

    @step
    def first(self) -> None:
        write_down(self)

    @step
    def second(self) -> None:
        write_down(self)


@pytest.mark.databases("postgresql")
@pytest.mark.timeout(180)
def test_a_thousand_created_in_one_transaction_finish_under_two_workers(
    queueing_app: Flask, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [Order() for _ in range(1000)]
    db.session.add_all(orders)
    db.session.flush()
    for order in orders:
        ManyFlow.create(hero=order)
    redis = queueing_app.extensions["geneva"].queue.redis
    trips: list[int] = []
    pipeline = redis.pipeline
    monkeypatch.setattr(redis, "pipeline", lambda *args, **kwargs: trips.append(1) or pipeline(*args, **kwargs))

    db.session.commit()

    assert len(trips) == 1
    for _ in range(2):
        workers.start("--no-fork", modules=[__name__])
    eventually(lambda: _unfinished() == 0, within=120)
    marks = Counter(tuple(row) for row in db.session.execute(select(LedgerEntry.workflow_id, LedgerEntry.step)))
    assert len(marks) == 2000
    assert set(marks.values()) == {1}


def _unfinished() -> int:
    db.session.rollback()
    return db.session.scalar(select(func.count()).select_from(Workflow).where(Workflow.is_ongoing)) or 0


class SlowStartFlow(Workflow[Order]):
    """Begins after a while."""

    @step(wait=30)
    def only(self) -> None:
        write_down(self)


def test_what_is_due_later_and_what_is_due_at_once_are_sent_together(
    queueing_app: Flask, extension: Geneva, caplog: pytest.LogCaptureFixture
) -> None:
    order = Order()
    db.session.add(order)
    for workflow_class in (SlowStartFlow, ManyFlow, SlowStartFlow, ManyFlow):
        workflow_class.create(hero=order, allow_multiple=True)

    db.session.commit()

    queue = extension.queue()
    assert caplog.messages == []
    assert (queue.count, queue.scheduled_job_registry.count) == (2, 2)
