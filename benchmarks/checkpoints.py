"""What a checkpoint costs beside a bare UPDATE and COMMIT, and how fast and in how much memory many records are walked.

``python -m benchmarks checkpoints``; everything happens in one step of one process.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import select, text

from benchmarks.place import Parcel, db, place
from flask_geneva import IterableStep, Workflow, resumable_step
from flask_geneva.testing import perform_next_step

_BARE = "UPDATE geneva_step_executions SET completed_iterations = %s, updated_at = now() WHERE id = %s"
MEGABYTE = 1024 * 1024


class Walked(Workflow[Any]):
    """A resumable step that measures itself."""

    may_proceed_without_hero = True
    measure: ClassVar[Callable[[Any, IterableStep], None]]

    @resumable_step
    def walk(self, it: IterableStep) -> None:
        type(self).measure(self, it)


def measure(database: str, redis: str, number: int, records: int, rounds: int = 9) -> list[dict[str, Any]]:
    """Measure the bare loop and checkpoints by turns, then a walk."""
    with place(database, redis, GENEVA_ENQUEUE=False) as here:
        bare, ours = _checkpoints(rounds, number)
        here.counted.reset()
        walked, grown = _walk(records)
        counts = f"{here.counted.statements} statements, {here.counted.commits} commits for {records:,} records"
    return [
        {"what": "bare UPDATE and COMMIT", "per_second": bare, "beside": ""},
        {"what": "checkpoint_every=1", "per_second": ours, "beside": f"{ours / bare:.2f} x the bare loop"},
        {
            "what": "records, checkpoint_every=1 second",
            "per_second": walked,
            "beside": f"{walked / ours:.0f} x as many; {counts}; {grown:.1f} MB above the start",
        },
    ]


def told(row: dict[str, Any]) -> str:
    """One row in words."""
    return f"{row['what']:44} {row['per_second']:9.0f}/s  {row['beside']}"


def _checkpoints(rounds: int, number: int) -> tuple[float, float]:
    """Checkpoints per second, of the bare loop and of ours: the median of the rounds."""
    rates: dict[str, list[float]] = {"bare": [], "ours": []}

    def measure(workflow: Walked, it: IterableStep) -> None:
        execution_id = workflow.execution_history[-1].id
        db.session.commit()
        for _ in range(rounds):
            rates["bare"].append(_rate(number, lambda: _bare_loop(execution_id, number)))
            rates["ours"].append(_rate(number, lambda: _our_loop(it, number)))

    _run(measure)
    return statistics.median(rates["bare"]), statistics.median(rates["ours"])


def _bare_loop(execution_id: int, number: int) -> None:
    connection: Any = db.session.connection().connection.driver_connection
    with connection.cursor() as cursor:
        for index in range(number):
            cursor.execute(_BARE, (index, execution_id))
            connection.commit()
    db.session.commit()


def _our_loop(it: IterableStep, number: int) -> None:
    done = it.cursor or 0
    for _ in it.iterate_over(range(done + number)):
        pass


def _walk(records: int) -> tuple[float, float]:
    """Records per second, and megabytes of memory above the start."""
    db.session.execute(text(f"INSERT INTO parcels (id) SELECT generate_series(1, {records:d})"))
    db.session.commit()
    db.session.execute(text("ANALYZE parcels"))
    db.session.commit()
    measured: list[float] = []

    def measure(workflow: Walked, it: IterableStep) -> None:
        begun, seen = time.perf_counter(), 0
        before = _resident()
        for parcel in it.iterate_over_records(select(Parcel), checkpoint_every=timedelta(seconds=1)):
            seen += 1
            assert parcel.id == seen
        assert seen == records
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        measured.extend([records / (time.perf_counter() - begun), (peak - before) / MEGABYTE])

    _run(measure)
    return measured[0], measured[1]


def _resident() -> int:
    """The memory that the process holds now, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _rate(number: int, work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return number / (time.perf_counter() - begun)


def _run(measure: Callable[[Walked, IterableStep], None]) -> None:
    Walked.measure = staticmethod(measure)
    workflow = Walked.create()
    db.session.commit()
    perform_next_step(workflow)
    assert workflow.state == "finished", workflow.explain()
