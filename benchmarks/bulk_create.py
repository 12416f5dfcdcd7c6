"""How fast many workflows are created in one transaction, jobs sent: one by one, and with ``create_many``.

``python -m benchmarks.bulk_create``; the Redis database is emptied. Beside them: what RQ's own ``enqueue_many`` sends.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from rq import Queue
from sqlalchemy import delete, func, select

from benchmarks.place import Place, TenSteps, db, geneva, place, stopwatch
from flask_geneva.records.tables import step_executions, workflows


def one_by_one(heroes: list[Any]) -> None:
    """Call ``create`` for each hero."""
    for hero in heroes:
        TenSteps.create(hero=hero)


def all_at_once(heroes: list[Any]) -> None:
    """Call ``create_many`` for all of them."""
    TenSteps.create_many(heroes)


def measure(here: Place, create: Callable[[list[Any]], object], number: int) -> dict[str, float]:
    """Create and commit; workflows per second, statements, round trips to Redis, and the part until the commit."""
    heroes = here.parcels(number)
    here.counted.reset()
    trips_before = _round_trips()
    with stopwatch() as whole:
        with stopwatch() as part:
            create(heroes)
        db.session.commit()
    assert geneva.queue().count == number
    trips = _round_trips() - trips_before
    found = {
        "per_second": number / whole["wall"],
        "per_cpu_second": number / whole["cpu"],
        "statements": here.counted.statements,
        "seconds_of_rows": part["wall"],
        "seconds_of_commit": whole["wall"] - part["wall"],
        "transactions_of_redis": trips,
    }
    _clean()
    return found


def rq_alone(number: int) -> float:
    """Send jobs that do nothing with RQ's ``enqueue_many``; jobs per second."""
    queue = Queue("bare", connection=geneva.redis)
    jobs = [Queue.prepare_data("time.time", result_ttl=0) for _ in range(number)]
    with stopwatch() as measured:
        queue.enqueue_many(jobs)
    geneva.redis.flushdb()
    return number / measured["wall"]


def _round_trips() -> int:
    """How many pipelines Redis has executed."""
    told: Any = geneva.redis.info("commandstats")
    return int(told.get("cmdstat_exec", {}).get("calls", 0))


def _clean() -> None:
    assert db.session.execute(select(func.count()).select_from(step_executions)).scalar_one()
    for table in (step_executions, workflows):
        db.session.execute(delete(table))
    db.session.commit()
    db.session.expunge_all()
    geneva.redis.flushdb()


def main() -> None:
    """Measure by turns and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/14", help="this Redis database is emptied")
    parser.add_argument("--number", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    with place(asked.database, asked.redis, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        one_by_one(here.parcels(100))
        db.session.commit()
        _clean()
        for _ in range(asked.rounds):
            print(f"RQ enqueue_many                  {rq_alone(asked.number):8.0f} jobs/s")
            for name, create in {"create, one by one": one_by_one, "create_many": all_at_once}.items():
                if create is all_at_once and not hasattr(TenSteps, "create_many"):
                    continue
                found = measure(here, create, asked.number)
                print(
                    f"{name:32} {found['per_second']:8.0f} workflows/s ({found['per_cpu_second']:.0f} by CPU time); "
                    f"{found['statements']} statements, {found['transactions_of_redis']} pipeline; "
                    f"rows {found['seconds_of_rows']:.1f} s, commit and jobs {found['seconds_of_commit']:.1f} s"
                )


if __name__ == "__main__":
    main()
