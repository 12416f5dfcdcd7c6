"""Many processes on few workflows, and few on many: how much they hinder one another, and that nothing is done twice.

``python -m benchmarks contention`` works on PostgreSQL; the Redis database is emptied.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from sqlalchemy import func, select, text

from benchmarks.place import Place, TenSteps, db, geneva, place
from benchmarks.waiting import park
from flask_geneva.records.tables import signals, step_executions

# What each process does once all are ready; it answers when it was done, and how much it did.
PROCESS = """
import sys, time
from flask import Flask
from benchmarks import contention, waiting
from benchmarks.place import db, geneva
url, redis_url, work, own, first, number, times = sys.argv[1:]
app = Flask("benchmark")
app.config.from_mapping(SQLALCHEMY_DATABASE_URI=url, GENEVA_REDIS_URL=redis_url, GENEVA_HOUSEKEEPING_INTERVAL=None)
db.init_app(app)
geneva.init_app(app, db)
with app.app_context():
    db.session.connection()
    db.session.rollback()
    print("ready", flush=True)
    sys.stdin.readline()
    done = getattr(contention, work)(own, int(first), int(number), int(times))
print(time.time(), done)
"""


def send_signals(own: str, first: int, number: int, times: int) -> int:
    """Signal the workflows in turn, each signal in its transaction."""
    from flask_geneva import Workflow

    for index in range(times):
        workflow = db.session.get_one(Workflow, first + (index * 7 + int(own)) % number)
        workflow.signal("other", {"n": index}, idempotency_key=f"{own}-{index}")
        db.session.commit()
    return times


def keep_house(own: str, first: int, number: int, times: int) -> int:
    """Do one run of housekeeping; how many jobs it sent again."""
    return int(geneva.run_housekeeping().stuck_scheduled_recovered)


def work(own: str, first: int, number: int, times: int) -> int:
    """Work until the queue is empty."""
    from flask import current_app

    from flask_geneva.worker.running import run_worker

    run_worker(current_app._get_current_object(), [], burst=True, fork=False)  # type: ignore[attr-defined]
    return 0


def _together(
    here: Place, processes: int, work: str, first: int = 0, number: int = 0, times: int = 0
) -> tuple[float, int]:
    """Let processes work at once; the seconds until the last was done, and the sum of what they did."""
    running = [_start(here, work, own, first, number, times) for own in range(processes)]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", "a process failed"
    began = time.time()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate()[0].split()[-2:] for process in running]
    assert all(process.returncode == 0 for process in running), "a process failed"
    return max(float(moment) for moment, _ in answers) - began, sum(int(done) for _, done in answers)


def _start(here: Place, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, here.database_url, here.redis_url, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _signals(here: Place, processes: int, workflows: int, times: int) -> dict[str, Any]:
    first = park(workflows)[0]
    seconds, done = _together(here, processes, "send_signals", first, workflows, times // processes)
    stored = db.session.execute(select(func.count()).where(signals.c.workflow_id >= first)).scalar_one()
    assert stored == done, "a signal was lost or stored twice"
    return _row(f"signals: {processes} processes, {workflows} workflows", done, seconds)


def _steps(here: Place, workers: int, workflows: int) -> dict[str, Any]:
    before = db.session.execute(select(func.count()).select_from(step_executions)).scalar_one()
    TenSteps.create_many(here.parcels(workflows))
    db.session.commit()
    seconds, _ = _together(here, workers, "work")
    db.session.rollback()
    done = db.session.execute(select(func.count()).select_from(step_executions)).scalar_one() - before
    assert done == workflows * 10, "a step ran twice or not at all"
    return _row(f"steps: {workers} workers, {workflows} workflows", done, seconds)


def _housekeeping(here: Place, processes: int, lost: int) -> dict[str, Any]:
    TenSteps.create_many(here.parcels(lost))
    db.session.commit()
    geneva.redis.flushdb()
    db.session.execute(
        text("UPDATE geneva_step_executions SET scheduled_for = now() - interval '1 hour' WHERE state = 'scheduled'")
    )
    db.session.commit()
    seconds, done = _together(here, processes, "keep_house")
    assert done == geneva.queue().count == lost, "a job was sent twice or not at all"
    _together(here, 2, "work")
    return _row(f"housekeeping: {processes} runs at once, {lost} lost jobs", done, seconds)


def _row(what: str, number: int, seconds: float) -> dict[str, Any]:
    return {"what": what, "per_second": number / seconds, "seconds": seconds}


def measure(database: str, redis: str, size: int) -> list[dict[str, Any]]:
    """Measure signals, steps and housekeeping, with one process and with several."""
    with place(database, redis, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        rows = [_signals(here, processes, number, size) for number in (4, 1000) for processes in (1, 2, 8)]
        rows += [_steps(here, workers, number) for number in (8, size // 4) for workers in (1, 2, 8)]
        rows += [_housekeeping(here, processes, size // 2) for processes in (1, 2, 4)]
    return rows


def told(row: dict[str, Any]) -> str:
    """One row in words."""
    return f"{row['what']:50} {row['per_second']:8.0f}/s"
