"""Redis is emptied while thousands of rows wait for their jobs: one run of housekeeping later all that are due run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from rq.registry import ScheduledJobRegistry
from sqlalchemy import select

from flask_geneva import Geneva, Workflow, step
from flask_geneva.worker.jobs import perform_step
from tests.harness.invariants import broken
from tests.harness.models import LedgerEntry, Order, db, write_down
from tests.harness.redis_servers import TestRedis

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

MANY = {"postgresql": 1000, "mariadb": 100, "mysql": 100, "sqlite": 100}


class DueFlow(Workflow[Order]):
    """Is due at once."""

    @step
    def now(self) -> None:
        write_down(self)


class NextMonthFlow(Workflow[Order]):
    """Is due in a month."""

    @step(wait=timedelta(days=30))
    def later(self) -> None:
        write_down(self)


class WokenFlow(Workflow[Order]):
    """Waits for a signal."""

    @step(wait_for="go")
    def woken(self) -> None:
        write_down(self)


@pytest.fixture
def app_config() -> dict[str, Any]:
    return {"GENEVA_STUCK_SCHEDULED_THRESHOLD": 0}


def create(workflow_class: type[Workflow[Any]], number: int) -> None:
    orders = [Order() for _ in range(number)]
    db.session.add_all(orders)
    db.session.flush()
    workflow_class.create_many(orders)
    db.session.commit()


def perform_all(extension: Geneva) -> None:
    """Do what is queued, without what a worker tells Redis about each job."""
    for job in extension.queue().jobs:
        perform_step(*job.args)


def test_one_run_of_housekeeping_after_a_flush_everything_due_runs_once(
    queueing_app: Flask,
    extension: Geneva,
    burst: Callable[..., None],
    redis_server: TestRedis,
    database_kind: str,
    record_property: Callable[[str, object], None],
) -> None:
    many = MANY[database_kind]
    create(WokenFlow, many // 10)
    burst()
    create(DueFlow, many)
    create(NextMonthFlow, many)
    for workflow in db.session.scalars(select(WokenFlow)):
        workflow.signal("go")
    db.session.commit()

    redis_server.flush()
    summary = extension.run_housekeeping()
    perform_all(extension)

    assert (summary.stuck_scheduled_recovered, summary.failures) == (many + many // 10, 0)
    ran = Counter(db.session.scalars(select(LedgerEntry.step)))
    assert ran == {"now": many, "woken": many // 10}
    assert len(set(db.session.scalars(select(LedgerEntry.workflow_id)))) == many + many // 10
    # What is due next month costs Redis nothing until then.
    assert len(ScheduledJobRegistry("geneva", connection=extension.redis)) == 0
    assert broken() == []
    record_property(f"{database_kind}: rows sent again after a flush", summary.stuck_scheduled_recovered)
