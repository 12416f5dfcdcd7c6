"""The application, the ledger, the counter and the workers that the other tests use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import select

from flask_geneva import Geneva
from tests.harness.models import Order
from tests.harness.sample_workflows import TwoMarks
from tests.harness.waiting import eventually
from tests.harness.workers import Workers


def create(db: SQLAlchemy) -> TwoMarks:
    order = Order()
    db.session.add(order)
    workflow = TwoMarks.create(hero=order)
    db.session.commit()
    return workflow


def test_the_application_has_its_tables_and_sends_nothing(
    app: Flask, db: SQLAlchemy, ledger: Callable[..., list[str]]
) -> None:
    workflow = create(db)

    assert workflow.state == "ready"
    assert ledger(workflow) == []


def test_counting_sees_statements_and_commits(app: Flask, db: SQLAlchemy, counting: Callable[..., Any]) -> None:
    with counting() as traffic:
        db.session.execute(select(Order))
        db.session.add(Order())
        db.session.commit()

    assert traffic.statements == 2
    assert traffic.commits == 1


def test_a_burst_runs_what_was_enqueued(
    queueing_app: Flask, db: SQLAlchemy, burst: Callable[..., None], ledger: Any
) -> None:
    workflow = create(db)

    burst()

    assert ledger(workflow) == ["first", "second"]


@pytest.mark.slow
@pytest.mark.parametrize("fork", [(), ("--no-fork",)], ids=["fork", "no-fork"])
def test_a_worker_process_runs_what_was_enqueued(
    fork: tuple[str, ...], db: SQLAlchemy, workers: Workers, ledger: Callable[..., list[str]]
) -> None:
    workflow = create(db)

    worker = workers.start(*fork, modules=["tests.harness.sample_workflows"])

    eventually(lambda: ledger(workflow) == ["first", "second"], otherwise=lambda: worker.output)


def test_two_applications_use_their_own_redis(
    app: Flask, queueing_app: Flask, extension: Geneva, redis_url: str
) -> None:
    with queueing_app.app_context():
        theirs = extension.redis.connection_pool.connection_kwargs["db"]

    assert redis_url.endswith(f"/{theirs}")


def test_configuration_of_a_test_reaches_its_application(build_app: Callable[..., Flask]) -> None:
    app = build_app(GENEVA_QUEUE="mine")

    assert app.config["GENEVA_QUEUE"] == "mine"
