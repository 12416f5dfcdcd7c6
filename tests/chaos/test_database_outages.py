"""A database that crashes, restarts or ends every connection costs attempts, and no step."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from tests.harness import apps
from tests.harness.absence import ServerAbsent, leave_out
from tests.harness.invariants import broken
from tests.harness.postgresql_server import OwnPostgreSQL, own_postgresql
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess, Workers, workers_on
from tests.worker.conftest import Meetings
from tests.worker.workflows import Long

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]

Ledger = Callable[[Any], list[str]]

LONG_LEDGER = [*(f"marks_{number}" for number in range(1, 10)), *(f"count {number}" for number in range(9))]
CONFIG = {"GENEVA_HOUSEKEEPING_INTERVAL": 1, "GENEVA_STUCK_SCHEDULED_THRESHOLD": 1}
both_kinds = pytest.mark.parametrize("fork", [(), ("--no-fork",)], ids=["fork", "no-fork"])


@pytest.fixture(scope="module")
def server() -> Iterator[OwnPostgreSQL]:
    try:
        with own_postgresql() as server:
            yield server
    except ServerAbsent as error:
        leave_out(error)


@pytest.fixture
def app_on_it(server: OwnPostgreSQL, redis_url: str, db: SQLAlchemy) -> Iterator[Flask]:
    app = apps.make_app(server.url, redis_url)
    with app.app_context():
        db.drop_all()
        db.create_all()
        yield app
        db.session.remove()
        db.engine.dispose()


@pytest.fixture
def workers_on_it(
    server: OwnPostgreSQL, redis_url: str, app_on_it: Flask, meetings: Meetings, tmp_path: Path
) -> Iterator[Workers]:
    with workers_on(server.url, redis_url, tmp_path) as workers:
        yield workers


def are_done(workflows: list[int], db: SQLAlchemy) -> bool:
    """Whether all are finished, as far as the database answers."""
    try:
        with db.engine.connect() as connection:
            states = connection.execute(text("SELECT id, state FROM geneva_workflows")).all()
    except DBAPIError:
        return False
    return {state for workflow_id, state in states if workflow_id in workflows} == {"finished"}


@both_kinds
def test_a_database_that_crashes_and_comes_back_costs_no_step(
    fork: tuple[str, ...],
    server: OwnPostgreSQL,
    workers_on_it: Workers,
    create: Callable[..., Any],
    db: SQLAlchemy,
    record_property: Callable[[str, object], None],
) -> None:
    ids = [create(Long).id for _ in range(5)]
    db.session.remove()
    worker = workers_on_it.start(*fork, modules=["tests.worker.workflows"], config=CONFIG)
    eventually(lambda: marks_of(ids, db) > 3, otherwise=lambda: worker.output)

    for _ in range(3):
        server.crash()
        server.start()
        db.engine.dispose()
        back, before = time.monotonic(), marks_of(ids, db)
        eventually(
            lambda: marks_of(ids, db) > before or are_done(ids, db),  # noqa: B023
            within=60,
            otherwise=lambda: worker.output,
        )
        kind = "one process" if fork else "forked"
        record_property(
            f"the end of a crash of PostgreSQL to the next step done, {kind}", f"{time.monotonic() - back:.1f} s"
        )

    eventually(lambda: are_done(ids, db), within=90, otherwise=lambda: worker.output)
    assert {workflow_id: apps_ledger(workflow_id, db) for workflow_id in ids} == dict.fromkeys(ids, LONG_LEDGER)
    assert broken() == []


def marks_of(ids: list[int], db: SQLAlchemy) -> int:
    return sum(len(apps_ledger(workflow_id, db)) for workflow_id in ids)


def apps_ledger(workflow_id: int, db: SQLAlchemy) -> list[str]:
    """The marks of a workflow."""
    statement = text("SELECT step FROM ledger_entries WHERE workflow_id = :id ORDER BY id")
    with db.engine.connect() as connection:
        return list(connection.scalars(statement, {"id": workflow_id}))


@pytest.mark.databases("postgresql", "mariadb", "mysql")
@both_kinds
def test_connections_that_are_ended_at_any_moment_cost_no_step(
    fork: tuple[str, ...],
    workers: Workers,
    start: Callable[..., WorkerProcess],
    create: Callable[..., Any],
    ledger: Ledger,
    database_url: str,
    db: SQLAlchemy,
) -> None:
    ids = [create(Long).id for _ in range(5)]
    db.session.remove()
    worker = start(*fork, **CONFIG)
    eventually(lambda: marks_of(ids, db) > 3, otherwise=lambda: worker.output)
    db.engine.dispose()

    chance = random.Random(3)
    for _ in range(25):
        end_all_connections(database_url)
        time.sleep(chance.uniform(0.02, 0.15))

    eventually(lambda: are_done(ids, db), within=90, otherwise=lambda: worker.output)
    assert {workflow_id: apps_ledger(workflow_id, db) for workflow_id in ids} == dict.fromkeys(ids, LONG_LEDGER)
    assert broken() == []


def end_all_connections(url: str) -> None:
    """End every connection to the database of the test but this one."""
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            connection.execute(text(f"{others} WHERE datname = current_database() AND pid <> pg_backend_pid()"))
            return
        others = "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
        for connection_id in connection.scalars(text(others)).all():
            try:
                connection.execute(text(f"KILL {connection_id}"))
            except DBAPIError:
                # It has ended by itself meanwhile.
                continue
