"""What Redis is asked about a job, and what follows from the answers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask
from redis import Redis
from rq import Queue
from rq.executions import Execution
from rq.job import Job, JobStatus

from flask_geneva import Geneva
from flask_geneva.engine.runtime import Liveness
from flask_geneva.worker import liveness
from flask_geneva.worker.liveness import liveness_of, running_key

# Nothing of this touches a database.
pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def redis(queueing_app: Flask, extension: Geneva) -> Redis:
    return extension.redis


@pytest.fixture
def queue(redis: Redis) -> Queue:
    return Queue("geneva", connection=redis)


def said_of(redis: Redis, job: Job) -> Liveness:
    return liveness_of(redis, [job.id])[job.id]


def beat(job: Job, seconds: int) -> None:
    with job.connection.pipeline() as pipeline:
        Execution.create(job, seconds, pipeline)
        pipeline.execute()


def test_a_job_in_its_queue_is_queued(redis: Redis, queue: Queue) -> None:
    assert said_of(redis, queue.enqueue(math.sqrt, 4)) is Liveness.QUEUED


def test_a_job_that_was_taken_out_of_its_queue_and_lost_is_unknown(redis: Redis, queue: Queue) -> None:
    job = queue.enqueue(math.sqrt, 4)
    redis.lpop(queue.key)

    assert said_of(redis, job) is Liveness.UNKNOWN


def test_a_job_of_a_very_long_queue_is_believed(redis: Redis, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    job = queue.enqueue(math.sqrt, 4)
    redis.lpop(queue.key)
    queue.enqueue(math.sqrt, 4)
    monkeypatch.setattr(liveness, "LONGEST_SEARCHED_QUEUE", 0)

    assert said_of(redis, job) is Liveness.QUEUED


def test_a_delayed_job_is_delayed_while_a_scheduler_can_find_it(redis: Redis, queue: Queue) -> None:
    job = queue.enqueue_at(datetime.now(UTC) + timedelta(hours=1), math.sqrt, 4)

    assert said_of(redis, job) is Liveness.DELAYED
    queue.scheduled_job_registry.remove(job)
    assert said_of(redis, job) is Liveness.UNKNOWN


@pytest.mark.parametrize("status", [JobStatus.STARTED, JobStatus.QUEUED])
def test_a_job_whose_heart_beats_is_running(status: JobStatus, redis: Redis, queue: Queue) -> None:
    job = queue.enqueue(math.sqrt, 4)
    job.set_status(status)
    beat(job, 90)

    assert said_of(redis, job) is Liveness.RUNNING


def test_a_started_job_whose_heart_has_stopped_is_dead(redis: Redis, queue: Queue) -> None:
    job = queue.enqueue(math.sqrt, 4)
    job.set_status(JobStatus.STARTED)
    beat(job, 0)

    assert said_of(redis, job) is Liveness.DEAD


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.STOPPED, JobStatus.CANCELED, JobStatus.FINISHED])
def test_a_job_that_has_ended_is_dead(status: JobStatus, redis: Redis, queue: Queue) -> None:
    job = queue.enqueue(math.sqrt, 4)
    job.set_status(status)

    assert said_of(redis, job) is Liveness.DEAD


def test_a_job_that_redis_has_forgotten_is_running_while_its_worker_says_so(redis: Redis) -> None:
    redis.set(running_key("forgotten"), "worker")

    assert liveness_of(redis, ["forgotten", "unheard-of"]) == {
        "forgotten": Liveness.RUNNING,
        "unheard-of": Liveness.UNKNOWN,
    }


def test_many_jobs_are_asked_about_in_pieces(redis: Redis, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "CHUNK", 2)
    jobs = [queue.enqueue(math.sqrt, 4) for _ in range(5)]

    assert set(liveness_of(redis, [job.id for job in jobs]).values()) == {Liveness.QUEUED}
