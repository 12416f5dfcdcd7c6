"""Steps and creation beside the peers: ratios, for absolute times mean little on shared machines.

``python -m benchmarks steps``; the Redis database is emptied.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import create_engine, make_url, text

from benchmarks import peers
from benchmarks.place import Place, TenSteps, db, place, stopwatch
from flask_geneva.worker.running import run_worker

Row = dict[str, Any]


def measure(server: str, redis_url: str, size: int) -> list[Row]:
    """Measure everything once."""
    rows: list[Row] = []
    with place(server, redis_url, GENEVA_RUN_AHEAD=30, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        try:
            floor = peers.core_floor(here, size * 10)
            other = peers.dbos(here, size)
        finally:
            _drop_dbos(server, here)
        steps, starts = other or (None, None)
        rows.append(_created(here, size, {"DBOS start_workflow": starts}))
        rows.append(
            _run(here, (size + 1) * 10, "ten steps straight on, --no-fork", {"Core floor": floor, "DBOS": steps})
        )
    with place(server, redis_url, GENEVA_RUN_AHEAD=0, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        for fork in (False, True):
            bare = peers.rq_no_op(here, size * 2, fork=fork)
            _create(here, max(size // 5, 1))
            what = f"one job a step, {'forked' if fork else '--no-fork'}"
            rows.append(_run(here, max(size // 5, 1) * 10, what, {"bare RQ no-op": bare}, fork=fork))
    return rows


def told(row: Row) -> str:
    """One row in words."""
    return (
        f"{row['what']:44} {row['per_second']:9.0f}/s  {row['statements']:5.2f} statements  "
        f"{row['commits']:5.2f} commits  {row['beside']}"
    )


def _created(here: Place, size: int, beside: dict[str, float | None]) -> Row:
    # As the peers are: what a process does once, such as to import RQ, is not a part of each.
    _create(here, 1)
    parcels = here.parcels(size)
    # A request holds what it is about. With all of them in the session each commit would go through all of them.
    db.session.expunge_all()
    here.counted.reset()
    with stopwatch() as measured:
        for parcel in parcels:
            TenSteps.create(hero=parcel)
            db.session.commit()
            db.session.expunge_all()
    return _row(here, "create and commit, one by one", size, measured["wall"], beside)


def _create(here: Place, number: int) -> None:
    for parcel in here.parcels(number):
        TenSteps.create(hero=parcel)
    db.session.commit()


def _run(here: Place, steps: int, what: str, beside: dict[str, float | None], *, fork: bool = False) -> Row:
    here.counted.reset()
    with stopwatch() as measured:
        while here.app.extensions["geneva"].queue.rq_queue().count:
            run_worker(here.app, [], burst=True, fork=fork)
    left = db.session.execute(text("SELECT count(*) FROM geneva_workflows WHERE state <> 'finished' AND type <> 'x'"))
    assert left.scalar_one() == 0, "not every workflow is finished"
    return _row(here, what, steps, measured["wall"], beside)


def _row(here: Place, what: str, number: int, seconds: float, beside: dict[str, float | None]) -> Row:
    per_second = number / seconds
    ratios = {name: per_second / other for name, other in beside.items() if other}
    said = [f"{ratio:.2f} x {name} ({beside[name]:.0f}/s)" for name, ratio in ratios.items()]
    said += [f"{name} is not installed" for name, other in beside.items() if not other]
    return {
        "what": what,
        "per_second": per_second,
        "statements": here.counted.statements / number,
        "commits": here.counted.commits / number,
        "ratios": ratios,
        "beside": ", ".join(said),
    }


def _drop_dbos(server: str, here: Place) -> None:
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {make_url(here.database_url).database}_dbos"))
    engine.dispose()
