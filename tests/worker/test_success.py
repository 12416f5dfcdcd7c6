"""What is left in Redis of a job that went well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from flask import Flask
from redis import Redis
from rq import Queue
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.registry import FailedJobRegistry

from flask_geneva import Geneva
from flask_geneva.worker.running import make_worker
from flask_geneva.worker.worker import GenevaSimpleWorker
from tests.worker.workflows import Quick


@pytest.fixture
def redis(queueing_app: Flask, extension: Geneva) -> Redis:
    return extension.redis


@pytest.fixture
def queue(redis: Redis) -> Queue:
    return Queue("geneva", connection=redis)


@pytest.fixture
def worker(queueing_app: Flask) -> GenevaSimpleWorker:
    return cast("GenevaSimpleWorker", make_worker(queueing_app, ["geneva"], fork=False))


def forgotten(redis: Redis, job: Job) -> bool:
    return not list(redis.scan_iter(f"*{job.id}*"))


def dependent_on(job: Job, queue: Queue) -> Job:
    return queue.enqueue("time.time", depends_on=job)


@pytest.mark.parametrize("fork", [True, False], ids=["forked", "no-fork"])
def test_nothing_is_left_of_the_jobs_of_steps(
    fork: bool, queueing_app: Flask, create: Callable[..., Any], ledger: Callable[[Any], list[str]], queue: Queue
) -> None:
    workflow = create(Quick)
    worker = make_worker(queueing_app, ["geneva"], fork=fork)
    (job,) = queue.jobs

    worker.work(burst=True)

    assert ledger(workflow) == ["first", "second"]
    assert forgotten(queue.connection, job)
    assert list(queue.connection.scan_iter("rq:job:*")) == []
    assert queue.started_job_registry.get_job_ids(cleanup=False) == []
    assert queue.intermediate_queue.get_job_ids() == []
    worker.refresh()
    assert worker.successful_job_count >= 1
    assert worker.total_working_time > 0


def test_a_job_that_waits_for_a_step_runs_after_it(
    worker: GenevaSimpleWorker, create: Callable[..., Any], queue: Queue
) -> None:
    create(Quick)
    (job,) = queue.jobs
    dependent = dependent_on(job, queue)

    worker.work(burst=True)

    assert dependent.get_status() == JobStatus.FINISHED
    assert forgotten(queue.connection, job)


def test_a_job_that_comes_to_wait_for_a_step_in_the_last_moment_runs_after_it(
    worker: GenevaSimpleWorker, create: Callable[..., Any], queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(Quick)
    (job,) = queue.jobs
    dependents: list[Job] = []
    clean_up = worker.cleanup_execution

    def clean_up_late(job: Job, pipeline: Any, execution: Execution | None = None) -> None:
        if not dependents:
            dependents.append(dependent_on(job, queue))
        clean_up(job, pipeline, execution)

    monkeypatch.setattr(worker, "cleanup_execution", clean_up_late)

    worker.work(burst=True)

    assert dependents[0].get_status() == JobStatus.FINISHED
    assert forgotten(queue.connection, job)


def test_a_job_that_was_taken_for_dead_while_it_ran_is_not_left_among_the_failed_ones(
    worker: GenevaSimpleWorker, create: Callable[..., Any], queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(Quick)
    (job,) = queue.jobs
    end = worker.handle_execution_ended

    def end_late(job: Job, *arguments: Any) -> None:
        FailedJobRegistry("geneva", connection=queue.connection).add(job, 60)
        job.connection.hset(job.key, "status", JobStatus.FAILED)
        end(job, *arguments)

    monkeypatch.setattr(worker, "handle_execution_ended", end_late)

    worker.work(burst=True)

    assert queue.failed_job_registry.get_job_ids(cleanup=False) == []
    assert forgotten(queue.connection, job)


def test_a_result_that_is_to_be_kept_is_kept(worker: GenevaSimpleWorker, queue: Queue) -> None:
    job = queue.enqueue("math.sqrt", 4, result_ttl=60)

    worker.work(burst=True)

    assert job.return_value() == 2.0
    assert job.get_status() == JobStatus.FINISHED
