"""One worker at a time keeps house, every now and then, beside its jobs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from flask import Flask

from flask_geneva import Geneva
from flask_geneva.worker.housekeeper import Lease
from tests.harness.redis_servers import TestRedis
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess
from tests.housekeeping.workflows import ago, begin_by_hand, write_execution
from tests.worker.conftest import Meetings
from tests.worker.workflows import Meeting, Quick

Start = Callable[..., WorkerProcess]
Ledger = Callable[[Any], list[str]]

SHORT = timedelta(milliseconds=200)
LONG = timedelta(minutes=5)


def test_one_has_the_lease_until_the_interval_is_over(queueing_app: Flask, extension: Geneva) -> None:
    first, second = (Lease(extension.redis, "geneva", SHORT) for _ in range(2))

    assert first.take()[0]
    assert not second.take()[0]
    eventually(lambda: second.take()[0], within=2)


def test_a_lease_can_be_extended(queueing_app: Flask, extension: Geneva) -> None:
    Lease(extension.redis, "geneva", SHORT).take()
    Lease(extension.redis, "geneva", LONG).extend()

    assert extension.redis.pttl("geneva:housekeeping:geneva") > 1000


def test_two_applications_on_one_redis_have_a_lease_each(queueing_app: Flask, extension: Geneva) -> None:
    assert Lease(extension.redis, "geneva", LONG).take()[0]
    assert Lease(extension.redis, "another", LONG).take()[0]


def test_a_redis_that_lost_its_memory_is_noticed(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis
) -> None:
    lease = Lease(extension.redis, "geneva", LONG)
    lease.take()

    assert lease.take() == (False, False)
    redis_server.flush()
    assert lease.take() == (True, True)


def test_a_worker_keeps_house(start: Start, create: Callable[..., Any], ledger: Ledger) -> None:
    workflow = create(Quick)
    begin_by_hand(workflow, job_id="nobody")

    worker = start(GENEVA_HOUSEKEEPING_INTERVAL=1)

    eventually(lambda: ledger(workflow) == ["first", "second"], otherwise=lambda: worker.output)
    assert "1 stuck_in_progress_recovered" in worker.output


def test_a_worker_keeps_house_beside_its_jobs(
    start: Start, create: Callable[..., Any], meetings: Meetings, extension: Geneva
) -> None:
    create(Meeting)
    worker = start("--no-fork", GENEVA_HOUSEKEEPING_INTERVAL=1)
    meetings.wait_for("meeting")

    dead = create(Quick)
    begin_by_hand(dead, job_id="nobody")

    eventually(lambda: "1 stuck_in_progress_recovered" in worker.output, otherwise=lambda: worker.output)
    meetings.let_go("meeting")


def test_a_worker_without_an_interval_keeps_no_house(
    start: Start, create: Callable[..., Any], ledger: Ledger, extension: Geneva
) -> None:
    workflow = create(Quick)
    worker = start(GENEVA_HOUSEKEEPING_INTERVAL=None)

    eventually(lambda: len(ledger(workflow)) == 2, otherwise=lambda: worker.output)

    assert not extension.redis.exists("geneva:housekeeping:geneva")


def test_housekeeping_can_be_a_job(
    queueing_app: Flask, burst: Callable[..., None], create: Callable[..., Any], ledger: Ledger, extension: Geneva
) -> None:
    workflow = create(Quick)
    write_execution(workflow, scheduled_for=ago(minutes=2))
    extension.queue().empty()
    extension.queue().enqueue("flask_geneva.worker.jobs.run_housekeeping")

    burst()

    assert ledger(workflow) == ["first", "second"]
