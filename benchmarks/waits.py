"""How late steps begin that waited for time, and how fast many that are due at one moment are sent to the queue.

``python -m benchmarks waits`` works on PostgreSQL; the Redis database is emptied.
"""

from __future__ import annotations

import contextlib
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.place import Place, db, geneva, place
from flask_geneva import Workflow, step

BEGUN_AT = "geneva-bench-begun"
SPREAD = 5.0

WORKER = """
import sys
from flask import Flask
from benchmarks import waits
from benchmarks.place import db, geneva
from flask_geneva.worker.running import run_worker
url, redis_url = sys.argv[1:]
app = Flask("benchmark")
app.config.from_mapping(SQLALCHEMY_DATABASE_URI=url, GENEVA_REDIS_URL=redis_url, GENEVA_HOUSEKEEPING_INTERVAL=None)
db.init_app(app)
geneva.init_app(app, db)
run_worker(app, [], fork=False)
"""
SCHEDULER = """
import sys
from rq import Queue
from redis import Redis
from flask_geneva.worker.scheduler import GenevaScheduler
redis = Redis.from_url(sys.argv[2])
scheduler = GenevaScheduler([Queue("geneva", connection=redis)], connection=redis)
assert scheduler.acquire_locks()
scheduler.work()
"""


class Delayed(Workflow[Any]):
    """Says when its step began, beside the moment at which it was due."""

    may_proceed_without_hero = True

    @step(wait=SPREAD)
    def begin(self) -> None:
        began = time.time()
        geneva.redis.rpush(BEGUN_AT, began - self.current_execution.scheduled_for.timestamp())


def lateness(here: Place, number: int) -> list[float]:
    """Let that many steps wait for moments that are spread over some seconds; how late each began, in order of size."""
    with _process(WORKER, here):
        for _ in range(number):
            Delayed.create(allow_multiple=True)
            db.session.commit()
            time.sleep(SPREAD / number)
        _until(lambda: geneva.redis.llen(BEGUN_AT) == number, within=120)
    return sorted(float(entry) for entry in geneva.redis.lrange(BEGUN_AT, 0, -1))


def drain(here: Place, number: int) -> tuple[float, float]:
    """Let that many steps be due; the seconds from the first one that is sent to the last, and those of CPU time."""
    Delayed.create_many([None] * number, allow_multiple=True)
    db.session.commit()
    waiting = geneva.queue().scheduled_job_registry
    assert waiting.count == number
    time.sleep(SPREAD)
    cpu = _cpu_of_children()
    with _process(SCHEDULER, here):
        _until(lambda: waiting.get_job_count(cleanup=False) < number, within=60)
        began = time.perf_counter()
        _until(lambda: waiting.get_job_count(cleanup=False) == 0, within=120)
        seconds = time.perf_counter() - began
    assert geneva.queue().count == number
    return seconds, _cpu_of_children() - cpu


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextlib.contextmanager
def _process(code: str, here: Place) -> Iterator[None]:
    arguments = [sys.executable, "-c", code, here.database_url, here.redis_url]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _until(is_so: Callable[[], bool], *, within: float) -> None:
    give_up = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < give_up, "it took too long"
        time.sleep(0.01)


def measure(database: str, redis: str, number: int, many: int) -> list[dict[str, Any]]:
    """Measure both."""
    rows: list[dict[str, Any]] = []
    with place(database, redis, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        found = lateness(here, number)
        rows.append(
            {
                "what": f"end of a wait to the first line of the step, {number} steps",
                "too_early": sum(late < 0 for late in found),
                "median_seconds_late": statistics.median(found),
                "p95_seconds_late": found[int(len(found) * 0.95)],
                "latest_seconds": found[-1],
            }
        )
        geneva.redis.flushdb()
        seconds, cpu = drain(here, many)
        rows.append({"what": f"{many} due at one moment, all sent", "seconds": seconds, "cpu_seconds": cpu})
    return rows


def told(row: dict[str, Any]) -> str:
    """One row in words."""
    facts = (f"{name.replace('_', ' ')} {value:.2f}" for name, value in row.items() if name != "what")
    return f"{row['what']}: {', '.join(facts)}"
