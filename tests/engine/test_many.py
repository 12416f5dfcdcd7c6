"""Many workflows at once: one round trip to Redis, every step once."""

from __future__ import annotations

from collections import Counter

import pytest
from flask import Flask
from sqlalchemy import func, select

from flask_geneva import Workflow, step
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
