"""Moments are the same whatever the time zone of the process, of the database's session, and of the season."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from flask import Flask

from flask_geneva import Geneva, Workflow, step
from flask_geneva.engine.runtime import Runtime
from flask_geneva.testing import perform_next_step
from tests.harness.models import Order, db

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ("UTC", "America/St_Johns", "Pacific/Kiritimati")
# Half an hour before the clocks go forward, and half an hour before they go back.
CHANGES = (datetime(2026, 3, 29, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
SESSION_ZONES = {
    "postgresql": {"connect_args": {"options": "-c timezone=Asia/Kathmandu"}},
    "mariadb": {"connect_args": {"init_command": "SET time_zone = '+05:45'"}},
    "mysql": {"connect_args": {"init_command": "SET time_zone = '+05:45'"}},
}


class HourLaterFlow(Workflow[Order]):
    """Waits an hour, and then for a signal or a day."""

    @step(wait=timedelta(hours=1))
    def later(self) -> None:
        """Do nothing."""

    @step(wait_for="word", deadline=timedelta(days=1), on_deadline="skip")
    def heard(self) -> None:
        """Do nothing."""


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Moves this process to another time zone for the test."""

    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def created() -> Any:
    order = Order()
    db.session.add(order)
    workflow = HourLaterFlow.create(hero=order)
    db.session.commit()
    db.session.expire_all()
    return workflow


@pytest.mark.parametrize("zone", ZONES)
def test_a_wait_ends_at_the_same_moment_in_every_time_zone_of_the_process(
    queueing_app: Flask, extension: Geneva, in_zone: Callable[[str], None], zone: str
) -> None:
    in_zone(zone)
    before = datetime.now(UTC)

    workflow = created()

    (execution,) = workflow.step_executions
    assert workflow.created_at.utcoffset() == timedelta(0)
    assert abs(workflow.created_at - before) < timedelta(minutes=1)
    assert execution.scheduled_for - execution.created_at == timedelta(hours=1)
    registry = extension.queue().scheduled_job_registry
    (job_id,) = registry.get_job_ids()
    due = registry.get_scheduled_time(job_id)
    assert timedelta(0) <= due - execution.scheduled_for < timedelta(seconds=1)
    assert "in 1 hour" in workflow.explain() or "in 59 minutes" in workflow.explain()


def test_what_one_time_zone_has_written_another_reads_as_the_same_moment(
    queueing_app: Flask, extension: Geneva, in_zone: Callable[[str], None]
) -> None:
    in_zone(ZONES[1])
    workflow = created()
    written = workflow.step_executions[0].scheduled_for
    db.session.commit()

    in_zone(ZONES[2])
    db.session.expire_all()

    assert workflow.step_executions[0].scheduled_for == written
    assert extension.run_housekeeping().stuck_scheduled_recovered == 0


def test_the_time_zone_of_the_databases_session_changes_nothing(
    build_app: Callable[..., Flask], database_kind: str
) -> None:
    app = build_app(SQLALCHEMY_ENGINE_OPTIONS=SESSION_ZONES.get(database_kind, {}))
    with app.app_context():
        before = datetime.now(UTC)

        workflow = created()
        perform_next_step(workflow)
        perform_next_step(workflow)
        db.session.expire_all()

        assert abs(workflow.created_at - before) < timedelta(minutes=1)
        _, parked = workflow.execution_history
        assert parked.deadline_at - parked.waiting_since == timedelta(days=1)
        assert parked.waiting_since.utcoffset() == timedelta(0)


@pytest.mark.parametrize("moment", CHANGES, ids=["forward", "back"])
def test_a_wait_over_a_change_of_the_clocks_is_as_long_as_any(
    app: Flask, in_zone: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, moment: datetime
) -> None:
    in_zone(BERLIN.key)
    monkeypatch.setattr(Runtime, "now", lambda runtime: moment)

    workflow = created()

    (execution,) = workflow.step_executions
    assert execution.scheduled_for == moment + timedelta(hours=1)
    assert execution.scheduled_for - execution.created_at == timedelta(hours=1)


def test_a_payload_tells_the_two_hours_apart_that_have_one_name(app: Flask, in_zone: Callable[[str], None]) -> None:
    in_zone(BERLIN.key)
    twice = [datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=fold) for fold in (0, 1)]
    workflow = created()

    for number, moment in enumerate(twice):
        workflow.signal("word", {"at": moment}, idempotency_key=str(number))
    db.session.commit()
    db.session.expire_all()

    first, second = (each.payload["at"] for each in workflow.signals)
    assert second.astimezone(UTC) - first.astimezone(UTC) == timedelta(hours=1)
    assert [first.astimezone(UTC), second.astimezone(UTC)] == [moment.astimezone(UTC) for moment in twice]
