"""A clock that jumps makes no step early, and takes none from a worker that lives."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from flask import Flask
from sqlalchemy import update

from flask_geneva import Geneva
from flask_geneva.records.tables import step_executions
from tests.engine.flows import run_job
from tests.harness.invariants import broken
from tests.harness.models import db
from tests.harness.redis_servers import TestRedis
from tests.housekeeping.workflows import CountedKeeping, Errand, Later, Parked, ago, create, newest_of, story_of

pytestmark = pytest.mark.chaos

Burst = Callable[..., None]
Ledger = Callable[[Any], list[str]]


def now_is(**offset: float) -> time_machine.travel:
    """The clock of this process jumps by so much."""
    return time_machine.travel(datetime.now(UTC) + timedelta(**offset))


def test_a_worker_whose_clock_is_behind_runs_nothing_early(
    queueing_app: Flask, extension: Geneva, burst: Burst, ledger: Ledger
) -> None:
    workflow = create(Later)
    db.session.execute(update(step_executions).values(scheduled_for=ago(seconds=1)))
    db.session.commit()
    job_id = newest_of(workflow).job_id

    with now_is(hours=-2):
        run_job(newest_of(workflow).id)

    assert ledger(workflow) == []
    assert newest_of(workflow).state == "scheduled"
    # Its job is spent; another one comes at the right moment.
    assert newest_of(workflow).job_id != job_id
    extension.run_housekeeping()
    run_job(newest_of(workflow).id)
    assert ledger(workflow) == ["only"]


def test_a_clock_that_was_ahead_leaves_nothing_that_waits_for_the_future(
    queueing_app: Flask, extension: Geneva, burst: Burst, ledger: Ledger
) -> None:
    with now_is(hours=5):
        workflow = create(CountedKeeping)
        assert newest_of(workflow).scheduled_for > datetime.now(UTC) - timedelta(minutes=1)
    assert newest_of(workflow).scheduled_for > datetime.now(UTC) + timedelta(hours=4)

    burst()
    assert ledger(workflow) == []

    with now_is(hours=5, minutes=1):
        extension.run_housekeeping()
        run_job(newest_of(workflow).id)

    assert ledger(workflow) == [f"count {number}" for number in range(5)]


def test_a_clock_that_jumps_in_a_step_changes_nothing_but_its_times(
    queueing_app: Flask, ledger: Ledger, burst: Burst
) -> None:
    workflow = create(Errand)

    with time_machine.travel(datetime.now(UTC)) as clock:
        execution_id = newest_of(workflow).id
        clock.shift(timedelta(seconds=1))
        run_job(execution_id)
        clock.shift(timedelta(hours=-3))
        run_job(newest_of(workflow).id)
        assert ledger(workflow) == ["first"]
        clock.shift(timedelta(hours=4))
        run_job(newest_of(workflow).id)

    assert ledger(workflow) == ["first", "second"]
    assert [outcome for _, _, outcome in story_of(workflow)] == ["success", "success", None]
    assert broken() == []


@pytest.mark.parametrize("hours", [-3, 3])
def test_housekeeping_by_a_wrong_clock_does_no_harm(
    hours: float, queueing_app: Flask, extension: Geneva, burst: Burst, ledger: Ledger, redis_server: TestRedis
) -> None:
    parked, due, later = create(Parked), create(Errand), create(Later)
    burst()
    redis_server.flush()

    with now_is(hours=hours):
        extension.run_housekeeping()
        assert broken() == []
    extension.run_housekeeping()

    assert broken() == []
    assert ledger(due) == ["first", "second"]
    assert ledger(later) == []
    parked.signal("paid")
    db.session.commit()
    burst()
    assert ledger(parked) == ["payment", "thanks"]
