"""The scheduler sends delayed jobs at their moment: not with the whole second before it, and not with the next."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from flask import Flask
from rq import Queue
from rq.scheduler import RQScheduler

from flask_geneva import Geneva
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.worker.scheduler import GenevaScheduler


def delay_until(app: Flask, due: datetime) -> None:
    request = JobRequest(job_id="geneva1", execution_id=1, due=due, options={})
    app.extensions["geneva"].queue.enqueue([request])


def look(kind: type[RQScheduler], queue: Queue) -> int:
    """Let a scheduler look once; how many jobs are in the queue then."""
    scheduler = kind([queue], connection=queue.connection)
    scheduler.acquire_locks()
    scheduler.enqueue_scheduled_jobs()
    scheduler.release_locks()
    return queue.count


def wait_for(moment: float) -> None:
    while time.time() < moment:
        time.sleep(0.005)


def test_a_job_goes_at_its_moment_and_not_before(queueing_app: Flask, extension: Geneva) -> None:
    # SCH-02, SCH-16
    # The middle of a second: RQ's own rounding would let it go half a second before.
    due = datetime.fromtimestamp(int(time.time()) + 2.5, UTC)
    delay_until(queueing_app, due)
    queue = extension.queue()

    wait_for(due.timestamp() - 0.4)
    sent_before = look(GenevaScheduler, queue)
    was_before = time.time() < due.timestamp()
    wait_for(due.timestamp())

    # Where the machine was too slow to look in time, nothing was shown.
    assert sent_before == 0 or not was_before
    assert look(GenevaScheduler, queue) == 1


def test_the_scheduler_of_rq_sends_it_as_well_and_not_before(queueing_app: Flask, extension: Geneva) -> None:
    queue = extension.queue()
    delay_until(queueing_app, datetime.now(UTC) + timedelta(hours=1))
    assert look(RQScheduler, queue) == 0

    delay_until(queueing_app, datetime.now(UTC) - timedelta(seconds=2))

    assert look(RQScheduler, queue) == 1
