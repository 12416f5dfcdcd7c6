"""What ours is compared with: the bare transaction, the bare queue, DBOS Transact."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

from rq import Queue, SimpleWorker, Worker
from sqlalchemy import create_engine, insert, make_url, select, update

from benchmarks.place import Parcel, Place, stopwatch
from flask_geneva.records.tables import step_executions, workflows

NOW = datetime(2026, 1, 1, tzinfo=UTC)

# Run in a process of its own: DBOS keeps its state in globals. It measures what it is asked for, a line each.
DBOS_SCRIPT = """
import sys, time
from dbos import DBOS
DBOS(config={"name": "bench", "system_database_url": sys.argv[1], "log_level": "ERROR", "run_admin_server": False})
@DBOS.step()
def nothing(): pass
@DBOS.workflow()
def ten():
    for _ in range(10): nothing()
@DBOS.workflow()
def empty(): pass
DBOS.launch()
ten()
for line in sys.stdin:
    what, number = line.split()
    began = time.perf_counter()
    if what == "steps":
        for _ in range(int(number)): ten()
        took = time.perf_counter() - began
    else:
        handles = [DBOS.start_workflow(empty) for _ in range(int(number))]
        took = time.perf_counter() - began
        for handle in handles: handle.get_result()
    print(int(number) / took, flush=True)
DBOS.destroy()
"""


def core_floor(place: Place, number: int) -> float:
    """Run transactions of a step's shape on SQLAlchemy Core, without an engine around them; steps per second."""
    engine = create_engine(place.database_url)
    common: dict[str, Any] = {"created_at": NOW, "updated_at": NOW}
    with engine.begin() as connection:
        values = {"type": "x", "state": "performing", "allow_multiple": True, **common}
        workflow_id = connection.execute(insert(workflows).values(values)).inserted_primary_key[0]
    hero_id = place.parcels(1)[0].id
    execution = {"workflow_id": workflow_id, "step_name": "x", "scheduled_for": NOW, "completed_iterations": 0}
    execution |= {"error_reattempts": 0, "death_reattempts": 0, "stalled_runs": 0, **common}
    own = workflows.c.id == workflow_id
    with stopwatch() as measured:
        for _ in range(number):
            with engine.begin() as connection:
                connection.execute(select(workflows).where(own).with_for_update()).one()
                connection.execute(update(workflows).where(own).values(updated_at=NOW, next_step_name="x"))
                new = connection.execute(insert(step_executions).values(state="completed", **execution))
                done = step_executions.c.id == new.inserted_primary_key[0]
                connection.execute(update(step_executions).where(done).values(outcome="success", updated_at=NOW))
                connection.execute(select(Parcel.id).where(Parcel.id == hero_id)).one()
    engine.dispose()
    return number / measured["wall"]


def creation_floor(place: Place, number: int) -> float:
    """Insert the two rows of a creation with SQLAlchemy Core, commit, enqueue a bare RQ job; so many per second."""
    engine = create_engine(place.database_url)
    queue = Queue("bare", connection=place.app.extensions["geneva"].queue.redis)
    common: dict[str, Any] = {"created_at": NOW, "updated_at": NOW}
    workflow = {"type": "x", "state": "finished", "hero_type": "Parcel", "allow_multiple": True, **common}
    execution = {"step_name": "x", "state": "completed", "scheduled_for": NOW, "completed_iterations": 0, **common}
    execution |= {"error_reattempts": 0, "death_reattempts": 0, "stalled_runs": 0}
    with stopwatch() as measured:
        for hero_id in range(number):
            with engine.begin() as connection:
                new = connection.execute(insert(workflows).values(hero_id=str(hero_id), **workflow))
                connection.execute(insert(step_executions).values(workflow_id=new.inserted_primary_key[0], **execution))
            queue.enqueue("time.time", result_ttl=0)
    engine.dispose()
    queue.empty()
    return number / measured["wall"]


def rq_no_op(place: Place, number: int, *, fork: bool) -> float:
    """Run RQ jobs that do nothing; jobs per second."""
    state = place.app.extensions["geneva"]
    queue = Queue("bare", connection=state.queue.redis)
    for _ in range(number):
        queue.enqueue("time.time", result_ttl=0)
    worker = (Worker if fork else SimpleWorker)([queue], connection=state.queue.redis)
    with stopwatch() as measured:
        worker.work(burst=True, logging_level="ERROR")
    return number / measured["wall"]


class Dbos:
    """DBOS Transact in a process of its own, on the same server; it answers None where it is not installed."""

    def __init__(self, place: Place) -> None:
        url = make_url(place.database_url)
        own = url.set(database=f"{url.database}_dbos").render_as_string(hide_password=False)
        self._process: subprocess.Popen[str] | None = None
        if find_spec("dbos") is not None:
            command = [sys.executable, "-c", DBOS_SCRIPT, own]
            self._process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Dbos:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()

    def steps(self, workflows: int) -> float | None:
        """Run workflows of ten empty steps; steps per second."""
        per_second = self._measure("steps", workflows)
        return None if per_second is None else per_second * 10

    def starts(self, number: int) -> float | None:
        """Start workflows; so many per second."""
        return self._measure("starts", number)

    def _measure(self, what: str, number: int) -> float | None:
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            return None
        print(what, number, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())
