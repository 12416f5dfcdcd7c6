"""How soon a woken step begins: from the call of commit to its first line, with a worker that has nothing else to do.

``python -m benchmarks wake_latency`` works on PostgreSQL; the Redis database is emptied.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.place import Place, db, geneva, place
from benchmarks.waiting import WOKEN_AT, park
from flask_geneva import Workflow

WORKER = """
import sys
from flask import Flask
from benchmarks import waiting
from benchmarks.place import db, geneva
from flask_geneva.worker.running import run_worker
url, redis_url, fork = sys.argv[1:]
app = Flask("benchmark")
app.config.from_mapping(SQLALCHEMY_DATABASE_URI=url, GENEVA_REDIS_URL=redis_url)
db.init_app(app)
geneva.init_app(app, db)
run_worker(app, [], fork=fork == "fork")
"""
# The first ones start the worker and compile its statements.
WARMING_UP = 5


def latencies(here: Place, number: int, *, fork: bool) -> list[float]:
    """Wake that many steps, one after the other; milliseconds, in order of size."""
    geneva.redis.delete(WOKEN_AT)
    ids = park(number + WARMING_UP)
    arguments = [here.database_url, here.redis_url, "fork" if fork else "no-fork"]
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        return sorted([_wake(workflow_id) for workflow_id in ids][WARMING_UP:])
    finally:
        worker.terminate()
        worker.wait()


def _wake(workflow_id: int) -> float:
    db.session.get_one(Workflow, workflow_id).signal("go")
    began = time.time()
    db.session.commit()
    give_up = began + 30
    while not (answer := geneva.redis.lpop(WOKEN_AT)):
        assert time.time() < give_up, "the worker did not wake the step"
        time.sleep(0.001)
    # The worker is idle again when its job is done, not when the step has begun.
    time.sleep(0.05)
    return (float(answer) - began) * 1000


def measure(database: str, redis: str, number: int) -> list[dict[str, Any]]:
    """Measure with a worker that forks and with one that does not."""
    rows: list[dict[str, Any]] = []
    with place(database, redis, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        for fork in (False, True):
            found = latencies(here, number, fork=fork)
            what = f"commit of a signal to the woken step, {'forked' if fork else '--no-fork'}"
            rows.append({"what": what, "median": statistics.median(found), "p95": found[int(len(found) * 0.95)]})
    return rows


def told(row: dict[str, Any]) -> str:
    """One row in words."""
    return f"{row['what']}: median {row['median']:.1f} ms, p95 {row['p95']:.1f} ms"
