"""How fast many workflows are created in one transaction, jobs sent: one by one, and with ``create_many``.

``python -m benchmarks bulk_create``; the Redis database is emptied. Beside them: what RQ's own ``enqueue_many`` sends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
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


def _measured(here: Place, create: Callable[[list[Any]], object], number: int) -> dict[str, float]:
    """Create and commit; workflows per second, statements, round trips to Redis, and the part until the commit."""
    heroes = here.parcels(number)
    here.counted.reset()
    with _pipelines() as pipelines, stopwatch() as whole:
        with stopwatch() as part:
            create(heroes)
        db.session.commit()
    assert geneva.queue().count == number
    found = {
        "per_second": number / whole["wall"],
        "per_cpu_second": number / whole["cpu"],
        "statements": here.counted.statements,
        "seconds_of_rows": part["wall"],
        "seconds_of_commit": whole["wall"] - part["wall"],
        "pipelines": len(pipelines),
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


@contextlib.contextmanager
def _pipelines() -> Iterator[list[Any]]:
    """The pipelines to Redis that are made within the block."""
    made: list[Any] = []
    redis: Any = geneva.redis
    make = redis.pipeline
    redis.pipeline = lambda *arguments, **options: made.append(make(*arguments, **options)) or made[-1]
    try:
        yield made
    finally:
        del redis.pipeline


def _clean() -> None:
    assert db.session.execute(select(func.count()).select_from(step_executions)).scalar_one()
    for table in (step_executions, workflows):
        db.session.execute(delete(table))
    db.session.commit()
    db.session.expunge_all()
    geneva.redis.flushdb()


def measure(server: str, redis_url: str, number: int, rounds: int = 2) -> list[dict[str, Any]]:
    """Measure RQ's own way, ``create`` one by one (a tenth as many) and ``create_many``, by turns."""
    rows: list[dict[str, Any]] = []
    with place(server, redis_url, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        one_by_one(here.parcels(100))
        db.session.commit()
        _clean()
        for _ in range(rounds):
            bare = rq_alone(number)
            few = max(number // 10, 1)
            rows.append({"what": f"create, {few} in a transaction", **_measured(here, one_by_one, few), "rq": bare})
            rows.append({"what": f"create_many, {number}", **_measured(here, all_at_once, number), "rq": bare})
    return rows


def told(row: dict[str, Any]) -> str:
    """One row in words."""
    return (
        f"{row['what']:44} {row['per_second']:9.0f}/s  {row['statements']} statements, "
        f"{row['pipelines']} pipeline; rows {row['seconds_of_rows']:.1f} s, commit and jobs "
        f"{row['seconds_of_commit']:.1f} s; {row['per_second'] / row['rq']:.2f} x RQ enqueue_many ({row['rq']:.0f}/s)"
    )
