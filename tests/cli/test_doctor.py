"""``flask geneva doctor``: each thing that the workflows stand on is ok, or it is said how to mend it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from flask import Flask
from rq import Worker
from rq.scheduler import RQScheduler

from flask_geneva import Geneva, Workflow, step
from flask_geneva.records.dialects import MYSQL_DIALECTS
from tests.cli.conftest import Cli, commands_of
from tests.harness.apps import make_app
from tests.harness.models import db

CLOSED_PORT = 1


class NightShift(Workflow):
    """Names a queue of its own."""

    may_proceed_without_hero = True
    job_options = {"queue": "nights"}

    @step
    def watch(self) -> None:
        pass


def findings(cli: Cli) -> dict[str, tuple[bool, str]]:
    """What the doctor found, by name."""
    return {each["name"]: (each["ok"], each["text"]) for each in json.loads(cli("doctor", "--json").stdout)}


@contextmanager
def a_worker_on(extension: Geneva, *names: str) -> Iterator[None]:
    """A worker that RQ knows, with its scheduler, without a process."""
    queues = [extension.queue(name) for name in names]
    worker = Worker(queues, connection=extension.redis)
    scheduler = RQScheduler(queues, connection=extension.redis)
    worker.register_birth()
    scheduler.acquire_locks()
    try:
        yield
    finally:
        scheduler.release_locks()
        worker.register_death()


def named_queues(cli: Cli) -> list[str]:
    """The queues that the classes of this process name: the whole suite's, when it runs in one."""
    text = findings(cli)["workers"][1]
    return shlex.split(text.partition("Run 'flask geneva worker ")[2].removesuffix("'."))


def test_all_is_well_where_a_worker_is_at_work(queueing_app: Flask, extension: Geneva) -> None:
    cli = commands_of(queueing_app)

    with a_worker_on(extension, *named_queues(cli)):
        done = cli("doctor")

    assert done.exit_code == 0, done.output
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["ok", name] for name in ("database", "migrations", "redis", "workers", "scheduler", "clock", "config")
    ]


@pytest.mark.databases("sqlite")
def test_a_queue_that_nobody_works_on_is_named(queueing_app: Flask, extension: Geneva) -> None:
    cli = commands_of(queueing_app)

    with a_worker_on(extension, "geneva"):
        found = findings(cli)

    assert not found["workers"][0]
    assert "'nights'" in found["workers"][1]
    assert "'geneva'" not in found["workers"][1]
    assert "Run 'flask geneva worker " in found["workers"][1]
    assert "Nobody sends the delayed jobs of queue" in found["scheduler"][1]


@pytest.mark.databases("sqlite")
def test_without_redis_all_that_needs_it_is_told(build_app: Callable[..., Flask]) -> None:
    app = build_app(f"redis://127.0.0.1:{CLOSED_PORT}/0")

    done = commands_of(app)("doctor")

    assert done.exit_code == 1
    problems = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("PROBLEM")]
    assert problems == ["redis", "workers", "scheduler", "clock"]
    assert f"Cannot reach Redis at redis://127.0.0.1:{CLOSED_PORT}/0" in done.stdout


@pytest.mark.databases("sqlite")
def test_without_a_table_the_commands_that_make_it_are_told(queueing_app: Flask) -> None:
    db.drop_all()

    ok, text = findings(commands_of(queueing_app))["migrations"]

    assert not ok
    assert "The database lacks the table 'geneva_" in text
    assert "flask db upgrade" in text


def test_isolation_under_which_signals_deadlock_is_advised_against(queueing_app: Flask) -> None:
    ok, text = findings(commands_of(queueing_app))["database"]

    assert ok
    assert ("READ COMMITTED" in text) == (db.engine.dialect.name in MYSQL_DIALECTS)


@pytest.mark.databases("mariadb", "mysql")
def test_nothing_is_advised_where_senders_read_what_is_committed(database_url: str, redis_url: str) -> None:
    app = make_app(database_url, redis_url, SQLALCHEMY_ENGINE_OPTIONS={"isolation_level": "READ COMMITTED"})

    with app.app_context():
        assert "READ COMMITTED" not in findings(commands_of(app))["database"][1]


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_clocks_that_disagree_are_told(queueing_app: Flask) -> None:
    # time_machine moves this process only; the database and Redis keep the right time.
    with time_machine.travel(timedelta(minutes=-10)):
        ok, text = findings(commands_of(queueing_app))["clock"]

    assert not ok
    assert "is 10 minutes ahead of this machine's" in text


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("config", "ok", "words"),
    [
        ({"GENEVA_ENQUEUE": False}, False, "'GENEVA_ENQUEUE' is False"),
        ({"GENEVA_HOUSEKEEPING_INTERVAL": None}, True, "housekeeping runs only when it is called"),
        ({}, True, "every GENEVA_ key is understood"),
    ],
)
def test_a_config_that_runs_no_step_is_told(
    build_app: Callable[..., Flask], redis_url: str, config: dict[str, Any], ok: bool, words: str
) -> None:
    app = build_app(redis_url, **config)

    found = findings(commands_of(app))["config"]

    assert found[0] is ok
    assert words in found[1]
