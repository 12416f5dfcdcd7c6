"""What a signal costs among few and among many parked workflows: the time, the ratio, the statements.

``python -m benchmarks.signal_scale`` works on PostgreSQL, in a database of its own; nothing is sent to Redis.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass

from sqlalchemy import text

from benchmarks.place import Place, db, place
from benchmarks.waiting import park
from flask_geneva import Workflow


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one signal with its commit: the median in milliseconds, and what went to the database."""

    milliseconds: float
    statements: int
    commits: int


def cost(here: Place, ids: list[int], number: int) -> Cost:
    """Signal that many of the workflows, taken from all over the table, once each."""
    times = []
    for workflow_id in ids[:: max(len(ids) // number, 1)][:number]:
        workflow = db.session.get_one(Workflow, workflow_id)
        here.counted.reset()
        began = time.perf_counter()
        workflow.signal("go", {"n": 1}, idempotency_key="once")
        db.session.commit()
        times.append((time.perf_counter() - began) * 1000)
    return Cost(milliseconds=statistics.median(times), statements=here.counted.statements, commits=here.counted.commits)


def main() -> None:
    """Measure among few, among many, and among few that stand in the same table as the many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=100_000)
    asked = parser.parse_args()
    with place(asked.database, "redis://127.0.0.1:6379/14", GENEVA_ENQUEUE=False) as here:
        version = db.session.execute(text("SHOW server_version")).scalar_one()
        print(f"PostgreSQL {version}, {asked.few} signals each")
        # The first ones compile the statements and fill the caches.
        cost(here, park(asked.few), asked.few)
        few = _told(here, asked.few, asked.few)
        many = _told(here, asked.many, asked.few)
        print(f"ratio of the times: {many.milliseconds / few.milliseconds:.2f}")


def _told(here: Place, parked: int, number: int) -> Cost:
    found = cost(here, park(parked), number)
    print(
        f"signal() and commit among {parked} parked: {found.milliseconds:.2f} ms (median), "
        f"{found.statements} statements, {found.commits} commit"
    )
    return found


if __name__ == "__main__":
    main()
