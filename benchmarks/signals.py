"""What a signal costs among few and among many parked workflows, and how soon the step that it wakes begins.

``python -m benchmarks.signals`` works on PostgreSQL; the Redis database is emptied.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from typing import Any

from sqlalchemy import text

from benchmarks.place import Place, db, geneva, place
from flask_geneva import Workflow, step

WOKEN_AT = "geneva-bench-woken"

WORKER = """
import sys
from flask import Flask
from benchmarks import signals
from benchmarks.place import db, geneva
from flask_geneva.worker.running import run_worker
url, redis_url, fork = sys.argv[1:]
app = Flask("benchmark")
app.config.from_mapping(SQLALCHEMY_DATABASE_URI=url, GENEVA_REDIS_URL=redis_url)
db.init_app(app)
geneva.init_app(app, db)
run_worker(app, [], fork=fork == "fork")
"""


class Parked(Workflow[Any]):
    """Waits for a signal, and says when it came."""

    may_proceed_without_hero = True

    @step(wait_for="go")
    def woken(self) -> None:
        geneva.redis.rpush(WOKEN_AT, str(time.time()))


def park(here: Place, number: int) -> list[int]:
    """Write that many parked workflows with two statements; return their ids."""
    common = "now(), now()"
    ids = db.session.execute(
        text(
            "INSERT INTO geneva_workflows (type, state, next_step_name, allow_multiple, created_at, updated_at) "
            f"SELECT 'Parked', 'ready', 'woken', true, {common} FROM generate_series(1, :number) RETURNING id"
        ),
        {"number": number},
    )
    found = [row.id for row in ids]
    db.session.execute(
        text(
            "INSERT INTO geneva_step_executions (workflow_id, step_name, state, scheduled_for, waiting_since, "
            "completed_iterations, error_reattempts, death_reattempts, stalled_runs, created_at, updated_at) "
            f"SELECT id, 'woken', 'waiting', now(), now(), 0, 0, 0, 0, {common} FROM geneva_workflows "
            "WHERE id >= :first"
        ),
        {"first": found[0]},
    )
    db.session.commit()
    db.session.execute(text("ANALYZE geneva_workflows, geneva_step_executions, geneva_signals"))
    db.session.commit()
    return found


def cost(here: Place, ids: list[int], number: int = 200) -> tuple[float, float]:
    """Signal some of the workflows: the median in milliseconds, and the statements of one."""
    times = []
    for workflow_id in ids[:: max(len(ids) // number, 1)][:number]:
        workflow = db.session.get_one(Workflow, workflow_id)
        here.counted.reset()
        began = time.perf_counter()
        workflow.signal("go", {"n": 1}, idempotency_key="once")
        db.session.commit()
        times.append((time.perf_counter() - began) * 1000)
        statements = here.counted.statements
    return statistics.median(times), statements


def latency(here: Place, number: int, *, fork: bool) -> tuple[float, float]:
    """From the commit of a signal to the first line of the woken step, with an idle worker: median and p95 in ms."""
    geneva.redis.delete(WOKEN_AT)
    ids = park(here, number)
    arguments = [here.database_url, here.redis_url, "fork" if fork else "no-fork"]
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        waits = [_wake(workflow_id) for workflow_id in ids]
    finally:
        worker.terminate()
        worker.wait()
    settled = sorted(waits[3:])
    return statistics.median(settled), settled[int(len(settled) * 0.95)]


def _wake(workflow_id: int) -> float:
    db.session.get_one(Workflow, workflow_id).signal("go")
    db.session.commit()
    committed = time.time()
    give_up = committed + 30
    while not (answer := geneva.redis.lpop(WOKEN_AT)):
        assert time.time() < give_up, "the worker did not wake the step"
        time.sleep(0.001)
    # The worker is idle again when its job is done, not when the step has begun.
    time.sleep(0.05)
    return (float(answer) - committed) * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/14")
    parser.add_argument("--few", type=int, default=300)
    parser.add_argument("--many", type=int, default=100_000)
    asked = parser.parse_args()
    with place(asked.database, asked.redis, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        few, few_statements = cost(here, park(here, asked.few))
        many, many_statements = cost(here, park(here, asked.many))
        print(f"signal() among {asked.few} parked: {few:.2f} ms, {few_statements} statements")
        print(f"signal() among {asked.many} parked: {many:.2f} ms, {many_statements} statements")
        print(f"ratio: {many / few:.2f}")
    with place(asked.database, asked.redis, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        for fork in (False, True):
            median, p95 = latency(here, 60, fork=fork)
            kind = "forked" if fork else "--no-fork"
            print(f"commit of a signal to the woken step, {kind}: median {median:.1f} ms, p95 {p95:.1f} ms")


if __name__ == "__main__":
    main()
