"""A job's heart beats for as long as it runs, in the process that runs it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from flask import Flask
from redis import Redis
from rq.executions import Execution, ExecutionRegistry
from rq.job import Job

from flask_geneva import Geneva
from flask_geneva.engine.runtime import Liveness
from flask_geneva.worker.heart import Heart
from flask_geneva.worker.liveness import liveness_of
from flask_geneva.worker.running import make_worker
from tests.harness.waiting import eventually
from tests.worker.conftest import Meetings
from tests.worker.workflows import Meeting

INTERVAL = 0.05


class Beats(list[str]):
    """The ids of the jobs for which a heart has beaten."""

    def __call__(self, job: Job, execution: Execution) -> None:
        self.append(job.id)


@pytest.fixture
def beats() -> Beats:
    return Beats()


@pytest.fixture
def heart(beats: Beats) -> Iterator[Heart]:
    heart = Heart(beats, INTERVAL)
    yield heart
    heart.stop()


def run_of(job_id: str) -> tuple[Job, Execution]:
    # Neither speaks to Redis before it is asked to.
    redis = Redis()
    return Job(job_id, connection=redis), Execution("one", job_id, redis)


def test_a_heart_beats_again_and_again_while_the_job_runs(heart: Heart, beats: Beats) -> None:
    with heart.beating_for(*run_of("long")):
        eventually(lambda: len(beats) >= 3)

    assert set(beats) == {"long"}


def test_one_thread_beats_for_one_job_after_another_and_no_longer(heart: Heart, beats: Beats) -> None:
    with heart.beating_for(*run_of("first")):
        eventually(lambda: "first" in beats)
    with heart.beating_for(*run_of("second")):
        eventually(lambda: beats.count("second") >= 3)

    assert set(beats[beats.index("second") :]) == {"second"}
    assert [each.name for each in threading.enumerate()].count("geneva heartbeat") == 1


def test_the_first_beat_is_due_when_the_job_has_run_for_an_interval() -> None:
    heart = Heart(Beats(), 1000.0)
    assert heart._rest() == 1000.0

    with heart.beating_for(*run_of("begun")):
        assert 900.0 < heart._rest() <= 1000.0
    heart.stop()


def test_a_beat_that_fails_is_tried_again() -> None:
    tried = []

    def beat(job: Job, execution: Execution) -> None:
        tried.append(job.id)
        raise RuntimeError("Redis is full")

    heart = Heart(beat, INTERVAL)
    with heart.beating_for(*run_of("unheard")):
        eventually(lambda: len(tried) >= 3)
    heart.stop()


@pytest.mark.parametrize("fork", [True, False], ids=["forked", "no-fork"])
def test_a_long_step_is_kept_alive_by_the_process_that_runs_it(
    fork: bool,
    queueing_app: Flask,
    create: Callable[..., Any],
    meetings: Meetings,
    extension: Geneva,
    ledger: Callable[[Any], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workflow = create(Meeting)
    worker = make_worker(queueing_app, ["geneva"], fork=fork, job_monitoring_interval=1)
    redis, seen = extension.redis, []

    def maintain(*arguments: Any) -> None:
        redis.rpush("beaten by", os.getpid())
        type(worker).maintain_heartbeats(worker, *arguments)

    def watch() -> None:
        process_id = meetings.wait_for("meeting")
        (job_id,) = (key.decode().split(":")[2] for key in redis.scan_iter("rq:executions:*"))
        # What a minute and a half does.
        redis.pexpire(ExecutionRegistry(job_id, redis).key, 60_000)
        redis.delete(f"geneva:running:{job_id}")
        seen.append(liveness_of(redis, [job_id])[job_id])
        eventually(lambda: liveness_of(redis, [job_id])[job_id] == Liveness.RUNNING)
        eventually(lambda: str(process_id).encode() in cast("list[bytes]", redis.lrange("beaten by", 0, -1)))
        seen.append(liveness_of(redis, [job_id])[job_id])
        meetings.let_go("meeting")

    monkeypatch.setattr(worker, "maintain_heartbeats", maintain)
    watcher = threading.Thread(target=watch)
    watcher.start()
    worker.work(burst=True)
    watcher.join()

    assert seen == [Liveness.DEAD, Liveness.RUNNING]
    assert len(ledger(workflow)) == 3
