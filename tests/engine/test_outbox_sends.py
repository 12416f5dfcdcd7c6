"""Nothing is sent that did not commit, and everything that committed is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from flask import Flask
from redis.exceptions import ConnectionError as RedisIsAway
from sqlalchemy import select

from flask_geneva import StepExecution, Workflow, step
from flask_geneva.engine.runtime import JobRequest
from tests.harness.models import Order, db


class SentFlow(Workflow[Order]):
    """One step."""

    @step
    def only(self) -> None:
        """Do nothing."""


@pytest.fixture
def sent(queueing_app: Flask, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The executions whose jobs were sent."""
    seen: list[int] = []
    queue = queueing_app.extensions["geneva"].queue
    monkeypatch.setattr(
        type(queue), "enqueue", lambda self, requests: seen.extend(each.execution_id for each in requests)
    )
    return seen


def start() -> None:
    order = Order()
    db.session.add(order)
    SentFlow.create(hero=order)


def stored() -> list[int]:
    """The executions that are committed."""
    with db.engine.connect() as connection:
        return list(connection.scalars(select(StepExecution.__table__.c.id).order_by(StepExecution.__table__.c.id)))


def test_nothing_is_sent_before_the_commit(sent: list[int]) -> None:
    # SCH-06, NEW-20
    start()
    assert sent == []

    db.session.commit()

    assert sent == stored() != []


def test_a_rollback_sends_nothing(sent: list[int]) -> None:
    # NEW-19
    start()

    db.session.rollback()
    db.session.commit()

    assert sent == stored() == []


def test_a_savepoint_that_is_released_is_sent_with_the_outermost_commit(sent: list[int]) -> None:
    with db.session.begin_nested():
        start()
        with db.session.begin_nested():
            start()
    assert sent == []

    db.session.commit()

    assert sent == stored()
    assert len(sent) == 2


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_along(sent: list[int]) -> None:
    start()
    savepoint = db.session.begin_nested()
    start()
    savepoint.rollback()

    db.session.commit()

    assert sent == stored()
    assert len(sent) == 1


def test_a_released_savepoint_below_one_that_is_rolled_back_sends_nothing(sent: list[int]) -> None:
    outer = db.session.begin_nested()
    with db.session.begin_nested():
        start()
    outer.rollback()

    db.session.commit()

    assert sent == stored() == []


def test_a_session_that_is_closed_in_the_middle_sends_nothing_later(sent: list[int]) -> None:
    db.session.begin_nested()
    start()
    db.session.close()

    start()
    db.session.commit()

    assert sent == stored()
    assert len(sent) == 1


def test_redis_away_at_the_commit_is_not_the_callers_error(
    queueing_app: Flask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # SCH-10
    def refuse(self: Any, requests: Sequence[JobRequest]) -> None:
        raise RedisIsAway("nobody there")

    monkeypatch.setattr(type(queueing_app.extensions["geneva"].queue), "enqueue", refuse)
    start()

    db.session.commit()

    assert len(stored()) == 1
    assert "1 job(s) could not be sent and are left to housekeeping" in caplog.text
