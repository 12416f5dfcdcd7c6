"""What many waits of thirty days cost: rows, and nothing in Redis until they come near.

``python -m benchmarks.spool`` works on PostgreSQL, in databases of its own; the Redis database is emptied.
"""

from __future__ import annotations

import argparse
import time
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from benchmarks.place import db, geneva, place
from flask_geneva import Workflow, step
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.housekeeping.run import run_housekeeping

BATCH = 10_000


class ThirtyDays(Workflow[Any]):
    """Waits for thirty days."""

    may_proceed_without_hero = True

    @step(wait=timedelta(days=30))
    def later(self) -> None:
        """Do nothing."""


def schedule(number: int) -> float:
    """Create so many waiting workflows as an application does; the seconds it took."""
    began = time.perf_counter()
    for start in range(0, number, BATCH):
        ThirtyDays.create_many([None] * min(BATCH, number - start), allow_multiple=True)
        db.session.commit()
        db.session.expunge_all()
    return time.perf_counter() - began


def redis_bytes() -> int:
    """The memory that Redis holds its data in."""
    memory: Any = geneva.redis.info("memory")
    return int(memory["used_memory_dataset"])


def measure(asked: argparse.Namespace, *, horizon: object, number: int) -> float:
    """Schedule and keep house once; print what that cost, and return the bytes of Redis for each wait."""
    with place(asked.database, asked.redis, GENEVA_SPOOL_HORIZON=horizon) as here:
        before = redis_bytes()
        seconds = schedule(number)
        here.counted.reset()
        began = time.perf_counter()
        run_housekeeping(current_runtime())
        kept = time.perf_counter() - began
        memory = redis_bytes() - before
        size = "SELECT pg_total_relation_size('geneva_workflows') + pg_total_relation_size('geneva_step_executions')"
        rows = db.session.execute(text(size)).scalar_one()
        print(
            f"GENEVA_SPOOL_HORIZON={horizon}: {number:,} waits of 30 days in {seconds:.1f} s; Redis "
            f"{memory / 1e6:+.1f} MB ({memory / number:.1f} bytes each), PostgreSQL {rows / 1e6:.0f} MB "
            f"({rows / number:.0f} bytes each); one run of housekeeping {kept:.2f} s, "
            f"{here.counted.statements} statements"
        )
        return memory / number


def main() -> None:
    """Measure with the horizon of a day, and with everything sent at once, which a part of the number will do for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/14")
    parser.add_argument("--number", type=int, default=1_000_000)
    parser.add_argument("--number-at-once", type=int, default=20_000)
    asked = parser.parse_args()
    measure(asked, horizon=86_400, number=asked.number)
    at_once = measure(asked, horizon=None, number=asked.number_at_once)
    print(f"sent at once, {asked.number:,} would cost Redis {at_once * asked.number / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
