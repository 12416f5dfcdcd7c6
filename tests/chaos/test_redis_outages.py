"""Redis may be flushed, stopped and restarted at any moment; work goes on when it is back."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_geneva import Geneva
from sample_app.embedded_redis import embedded_redis, free_port
from tests.harness.redis_servers import TestRedis
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess, Workers, workers_on
from tests.worker.conftest import Meetings
from tests.worker.workflows import Meeting, Quick, Shortly

Ledger = Callable[[Any], list[str]]

both_kinds = pytest.mark.parametrize("fork", [(), ("--no-fork",)], ids=["fork", "no-fork"])


@pytest.mark.chaos
def test_steps_that_were_queued_when_redis_was_flushed_run_within_seconds(
    start: Callable[..., WorkerProcess],
    create: Callable[..., Any],
    meetings: Meetings,
    ledger: Ledger,
    redis_server: TestRedis,
) -> None:
    busy = create(Meeting)
    worker = start(GENEVA_HOUSEKEEPING_INTERVAL=60)
    meetings.wait_for("meeting")
    queued, delayed = create(Quick), create(Shortly)

    redis_server.flush()
    meetings.let_go("meeting")

    eventually(lambda: len(ledger(busy)) == 3, otherwise=lambda: worker.output)
    eventually(lambda: len(ledger(queued)) == 2, within=15, otherwise=lambda: worker.output)
    eventually(lambda: len(ledger(delayed)) == 1, within=15, otherwise=lambda: worker.output)


@pytest.fixture
def redis_port() -> int:
    """Where the Redis of this test is, when it is."""
    return free_port()


@pytest.fixture
def lonely_app(build_app: Callable[..., Flask], redis_port: int) -> Iterator[Flask]:
    """An application whose Redis may be there or not."""
    app = build_app(f"redis://127.0.0.1:{redis_port}/0")
    with app.app_context():
        yield app


@pytest.fixture
def lonely_workers(
    database_url: str, redis_port: int, lonely_app: Flask, meetings: Meetings, tmp_path: Path
) -> Iterator[Workers]:
    with workers_on(database_url, f"redis://127.0.0.1:{redis_port}/0", tmp_path) as workers:
        yield workers


@pytest.mark.chaos
@both_kinds
def test_a_worker_outlives_a_redis_that_is_restarted_empty(
    fork: tuple[str, ...],
    lonely_workers: Workers,
    create: Callable[..., Any],
    meetings: Meetings,
    ledger: Ledger,
    redis_port: int,
) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(embedded_redis(redis_port))
        busy = create(Meeting)
        worker = lonely_workers.start(*fork, modules=["tests.worker.workflows"], config={"GENEVA_RUN_AHEAD": 0})
        meetings.wait_for("meeting")
        stack.pop_all().close()
        meanwhile = create(Quick)
        meetings.let_go("meeting")
        eventually(lambda: ledger(busy) == ["before", "meeting"], otherwise=lambda: worker.output)

        stack.enter_context(embedded_redis(redis_port))

        eventually(lambda: len(ledger(busy)) == 3, within=30, otherwise=lambda: worker.output)
        eventually(lambda: len(ledger(meanwhile)) == 2, within=30, otherwise=lambda: worker.output)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0


@pytest.mark.chaos
@both_kinds
def test_a_worker_can_be_told_to_end_while_redis_is_away(
    fork: tuple[str, ...],
    lonely_workers: Workers,
    create: Callable[..., Any],
    meetings: Meetings,
    ledger: Ledger,
    redis_port: int,
) -> None:
    with embedded_redis(redis_port):
        workflow = create(Meeting)
        worker = lonely_workers.start(*fork, modules=["tests.worker.workflows"])
        meetings.wait_for("meeting")

    worker.send(signal.SIGTERM)
    eventually(lambda: "warm shut down" in worker.output)
    meetings.let_go("meeting")

    assert worker.wait() == 0
    assert ledger(workflow) == ["before", "meeting"]


def test_a_request_does_not_fail_while_redis_is_away(
    lonely_app: Flask, create: Callable[..., Any], extension: Geneva
) -> None:
    assert create(Quick).state == "ready"
