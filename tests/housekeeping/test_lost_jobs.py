"""Rows without a job are sent again, the others are left alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from flask import Flask
from rq import Queue
from rq.job import Job, JobStatus

from flask_geneva import Geneva
from flask_geneva.engine.runtime import Liveness
from flask_geneva.worker.job_queue import RQJobQueue
from tests.harness.redis_servers import TestRedis
from tests.housekeeping.workflows import (
    Errand,
    Later,
    Parked,
    ago,
    create,
    newest_of,
    story_of,
    write_execution,
    write_workflow,
)

Burst = Callable[..., None]
Ledger = Callable[[Any], list[str]]


@pytest.fixture
def app_config() -> dict[str, Any]:
    """Small batches, so that each test of several rows has several."""
    return {"GENEVA_HOUSEKEEPING_BATCH_SIZE": 2}


def test_an_overdue_step_whose_job_redis_has_lost_is_sent_again(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis, burst: Burst, ledger: Ledger
) -> None:
    """HSK-17, SCH-10"""
    workflow = create(Errand)
    write_execution(workflow, scheduled_for=ago(minutes=2))
    redis_server.flush()

    summary = extension.run_housekeeping()
    burst()

    assert summary.stuck_scheduled_recovered == 1
    assert ledger(workflow) == ["first", "second"]
    assert story_of(workflow)[0] == ("first", "completed", "success")


def test_a_step_that_was_written_where_nothing_is_sent_is_sent(
    app: Flask, build_app: Callable[..., Flask], extension: Geneva, redis_url: str
) -> None:
    workflow = create(Errand)
    write_execution(workflow, scheduled_for=ago(minutes=2))

    with build_app(redis_url).app_context():
        extension.run_housekeeping()

        assert extension.queue().job_ids == [newest_of(workflow).job_id]


def test_an_overdue_step_whose_job_is_queued_is_left_alone(queueing_app: Flask, extension: Geneva) -> None:
    workflow = create(Errand)
    write_execution(workflow, scheduled_for=ago(hours=3))
    job_id = newest_of(workflow).job_id

    summary = extension.run_housekeeping()

    assert summary.stuck_scheduled_recovered == 0
    assert extension.queue().job_ids == [newest_of(workflow).job_id] == [job_id]


def test_a_step_that_is_hardly_overdue_is_left_alone(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis
) -> None:
    """HSK-19"""
    workflow = create(Errand)
    write_execution(workflow, scheduled_for=ago(seconds=30))
    redis_server.flush()

    assert extension.run_housekeeping().stuck_scheduled_recovered == 0


def test_a_job_that_a_worker_took_and_lost_is_sent_again(
    queueing_app: Flask, extension: Geneva, burst: Burst, ledger: Ledger
) -> None:
    workflow = create(Errand)
    write_execution(workflow, scheduled_for=ago(minutes=2))
    extension.redis.lpop(extension.queue().key)

    extension.run_housekeeping()
    burst()

    assert ledger(workflow) == ["first", "second"]


def test_a_step_whose_job_failed_before_it_began_is_sent_again(
    queueing_app: Flask, extension: Geneva, burst: Burst, ledger: Ledger
) -> None:
    workflow = create(Errand)
    write_execution(workflow, scheduled_for=ago(minutes=2))
    extension.redis.lpop(extension.queue().key)
    Job.fetch(newest_of(workflow).job_id, connection=extension.redis).set_status(JobStatus.FAILED)

    extension.run_housekeeping()
    burst()

    assert ledger(workflow) == ["first", "second"]


def test_steps_are_sent_again_oldest_first_and_in_all_batches(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis
) -> None:
    """HSK-20"""
    workflows = [create(Errand) for _ in range(5)]
    for number, workflow in enumerate(workflows):
        write_execution(workflow, scheduled_for=ago(hours=1 + number))
    redis_server.flush()

    summary = extension.run_housekeeping()

    assert summary.stuck_scheduled_recovered == 5
    assert extension.queue().job_ids == [newest_of(workflow).job_id for workflow in reversed(workflows)]


def test_the_step_of_a_paused_workflow_is_left_alone(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis
) -> None:
    """HSK-21 (B-25)"""
    workflow = create(Errand)
    workflow.pause()
    write_execution(workflow, scheduled_for=ago(days=2))
    redis_server.flush()
    before = newest_of(workflow).job_id

    assert extension.run_housekeeping().stuck_scheduled_recovered == 0
    assert newest_of(workflow).job_id == before
    assert story_of(workflow) == [("first", "scheduled", None)]


def test_a_delayed_job_that_redis_has_lost_is_sent_again_for_its_own_time(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis
) -> None:
    workflow = create(Later)
    redis_server.flush()

    extension.run_housekeeping()

    execution = newest_of(workflow)
    due = extension.queue().scheduled_job_registry.get_scheduled_time(execution.job_id)
    assert timedelta(0) <= due - execution.scheduled_for < timedelta(seconds=1)


def test_a_delayed_job_that_is_there_is_left_alone(queueing_app: Flask, extension: Geneva) -> None:
    workflow = create(Later)
    before = newest_of(workflow).job_id

    assert extension.run_housekeeping().stuck_scheduled_recovered == 0
    assert newest_of(workflow).job_id == before


def test_a_delayed_job_that_no_scheduler_takes_up_is_sent_at_once(queueing_app: Flask, extension: Geneva) -> None:
    workflow = create(Later)
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=1, minutes=2), tick=True):
        extension.run_housekeeping()

    assert extension.queue().job_ids == [newest_of(workflow).job_id]


def test_a_step_beyond_the_spool_horizon_has_no_job_until_it_is_within(
    queueing_app: Flask, extension: Geneva, burst: Burst
) -> None:
    workflow = create(Errand)
    burst()
    scheduled = extension.queue().scheduled_job_registry

    extension.run_housekeeping()
    assert scheduled.get_job_ids() == []

    with time_machine.travel(datetime.now(UTC) + timedelta(days=29, hours=12), tick=True):
        extension.run_housekeeping()
        assert scheduled.get_job_ids() == [newest_of(workflow).job_id]


def test_only_the_next_steps_are_asked_about_while_none_is_lost(
    queueing_app: Flask, extension: Geneva, asked: list[str]
) -> None:
    workflows = [create(Later) for _ in range(7)]

    extension.run_housekeeping()

    assert asked == [newest_of(workflow).job_id for workflow in workflows[:2]]


def test_all_that_lie_ahead_are_asked_about_while_some_are_lost(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis, asked: list[str]
) -> None:
    for _ in range(7):
        create(Later)
    redis_server.flush()

    extension.run_housekeeping()

    assert len(asked) == 7
    assert extension.queue().scheduled_job_registry.count == 7


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the jobs that Redis is asked about."""
    ids: list[str] = []
    liveness = RQJobQueue.liveness

    def listen(queue: RQJobQueue, job_ids: Sequence[str]) -> Mapping[str, Liveness]:
        ids.extend(job_ids)
        return liveness(queue, job_ids)

    monkeypatch.setattr(RQJobQueue, "liveness", listen)
    return ids


def test_a_deadline_whose_job_is_lost_is_kept_all_the_same(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis, burst: Burst, ledger: Ledger
) -> None:
    workflow = create(Parked)
    burst()
    write_execution(workflow, deadline_at=ago(minutes=2))
    redis_server.flush()

    extension.run_housekeeping()
    burst()

    assert story_of(workflow)[0] == ("payment", "skipped", "skipped")
    assert ledger(workflow) == ["thanks"]


def test_a_deadline_ahead_whose_job_is_lost_is_sent_again(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis, burst: Burst
) -> None:
    workflow = create(Parked)
    burst()
    redis_server.flush()

    extension.run_housekeeping()

    assert newest_of(workflow).state == "waiting"
    assert extension.queue().scheduled_job_registry.get_job_ids() == [newest_of(workflow).job_id]


def test_a_parked_step_without_a_deadline_is_never_overdue(
    queueing_app: Flask, extension: Geneva, burst: Burst
) -> None:
    """HSK-22"""
    workflow = create(Parked)
    burst()
    write_execution(workflow, deadline_at=None, waiting_since=ago(days=30), scheduled_for=ago(days=30))

    summary = extension.run_housekeeping()

    assert not any(summary.as_dict().values())
    assert newest_of(workflow).state == "waiting"


def test_a_step_that_a_signal_woke_while_redis_was_away_is_sent(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis, burst: Burst, ledger: Ledger
) -> None:
    workflow = create(Parked)
    burst()
    workflow.signal("paid")
    write_execution(workflow, scheduled_for=ago(minutes=2))
    redis_server.flush()

    extension.run_housekeeping()
    burst()

    assert ledger(workflow) == ["payment", "thanks"]


def test_a_scheduled_step_of_a_workflow_that_is_called_performing_goes_on(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis, burst: Burst, ledger: Ledger
) -> None:
    workflow = create(Errand)
    write_execution(workflow, scheduled_for=ago(minutes=2))
    write_workflow(workflow, state="performing", current_step_name="first")
    redis_server.flush()

    extension.run_housekeeping()
    burst()

    assert ledger(workflow) == ["first", "second"]


def test_the_queue_of_the_step_is_kept(queueing_app: Flask, extension: Geneva, redis_server: TestRedis) -> None:
    workflow = create(Errand, job_options={"queue": "parcels"})
    write_execution(workflow, scheduled_for=ago(minutes=2))
    redis_server.flush()

    extension.run_housekeeping()

    parcels: Queue = extension.queue("parcels")
    assert parcels.job_ids == [newest_of(workflow).job_id]
