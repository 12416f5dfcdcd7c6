"""How soon a woken step begins: from the call of commit to its first line, with a worker that has nothing else to do.

``python -m benchmarks.wake_latency`` works on PostgreSQL; the Redis database is emptied.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

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


def main() -> None:
    """Measure with a worker that forks and with one that does not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/14")
    parser.add_argument("--number", type=int, default=100)
    asked = parser.parse_args()
    with place(asked.database, asked.redis, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        for fork in (False, True):
            found = latencies(here, asked.number, fork=fork)
            median, p95 = statistics.median(found), found[int(len(found) * 0.95)]
            kind = "forked" if fork else "--no-fork"
            print(f"commit of a signal to the woken step, {kind}: median {median:.1f} ms, p95 {p95:.1f} ms")


if __name__ == "__main__":
    main()
