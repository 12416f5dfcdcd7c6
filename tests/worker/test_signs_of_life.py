"""What Redis knows of a worker between two jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from flask import Flask
from redis import Redis
from rq import Worker
from rq.worker import BaseWorker, WorkerStatus

from flask_geneva import Geneva
from flask_geneva.worker.running import make_worker
from flask_geneva.worker.worker import GenevaWorker
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess
from tests.worker.conftest import Meetings
from tests.worker.workflows import Meeting

A_MINUTE = 60
# What a worker that waits for a job is given, less what a starved machine may take to look.
LONG = 480 - A_MINUTE


@pytest.fixture
def redis(queueing_app: Flask, extension: Geneva) -> Redis:
    return extension.redis


@pytest.fixture
def worker(queueing_app: Flask) -> GenevaWorker:
    worker = make_worker(queueing_app, ["geneva"], fork=True)
    worker.register_birth()
    return cast("GenevaWorker", worker)


def stored_state(redis: Redis, worker: GenevaWorker) -> str:
    return cast("bytes", redis.hget(worker.key, "state")).decode()


def expiry(redis: Redis, worker: BaseWorker) -> int:
    return cast("int", redis.ttl(worker.key))


@pytest.mark.parametrize("fork", [(), ("--no-fork",)], ids=["forked", "no-fork"])
def test_a_worker_is_busy_with_a_job_and_idle_after_it(
    fork: tuple[str, ...],
    start: Callable[..., WorkerProcess],
    create: Callable[..., Any],
    meetings: Meetings,
    ledger: Callable[[Any], list[str]],
    redis: Redis,
) -> None:
    workflow = create(Meeting)
    start(*fork, GENEVA_RUN_AHEAD=0)

    meetings.wait_for("meeting")
    (known,) = Worker.all(connection=redis)
    assert known.get_state() == WorkerStatus.BUSY
    meetings.let_go("meeting")

    eventually(lambda: len(ledger(workflow)) == 3)
    eventually(lambda: Worker.all(connection=redis)[0].get_state() == WorkerStatus.IDLE)
    assert expiry(redis, known) > LONG


def test_a_sign_of_life_is_not_repeated_at_once(worker: GenevaWorker, redis: Redis) -> None:
    worker.repeat_after = 1000.0
    worker.heartbeat()
    assert expiry(redis, worker) > LONG

    redis.expire(worker.key, A_MINUTE)
    worker.heartbeat()
    assert expiry(redis, worker) <= A_MINUTE

    worker.repeat_after = 0.0
    worker.heartbeat()
    assert expiry(redis, worker) > LONG


def test_each_look_for_a_job_gives_a_sign_of_life(worker: GenevaWorker, redis: Redis) -> None:
    worker.check_for_suspension(burst=True)
    redis.expire(worker.key, A_MINUTE)

    worker.check_for_suspension(burst=True)

    assert expiry(redis, worker) > LONG


def test_a_worker_tells_that_it_is_idle_with_the_next_sign_of_life(worker: GenevaWorker, redis: Redis) -> None:
    worker.heartbeat()
    worker.set_state(WorkerStatus.BUSY)
    assert stored_state(redis, worker) == WorkerStatus.BUSY

    worker.set_state(WorkerStatus.IDLE)
    worker.check_for_suspension(burst=True)

    assert stored_state(redis, worker) == WorkerStatus.IDLE


def test_a_worker_is_known_to_be_idle_before_it_waits(worker: GenevaWorker, redis: Redis) -> None:
    worker.check_for_suspension(burst=True)
    worker.set_state(WorkerStatus.BUSY)

    # As after an outage: nothing was said of the end of the job.
    assert worker.dequeue_job_and_maintain_ttl(None) is None

    assert stored_state(redis, worker) == WorkerStatus.IDLE
