"""Steps and creation beside the peers: ratios, for absolute times mean little on shared machines.

``python -m benchmarks steps``; the Redis database is emptied.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any, NamedTuple

from sqlalchemy import create_engine, make_url, text

from benchmarks import peers
from benchmarks.place import Place, TenSteps, db, place, stopwatch
from flask_geneva.worker.running import run_worker

Row = dict[str, Any]
Beside = Mapping[str, float | None]
ROUNDS = 5


class Turn(NamedTuple):
    """One of several measurements, with what the peers did just before it."""

    what: str
    per_second: float
    costs: Mapping[str, float]
    beside: Beside


def measure(server: str, redis_url: str, size: int) -> list[Row]:
    """Measure ours and the peers by turns, since a shared machine is now quick and now slow."""
    with place(server, redis_url, GENEVA_RUN_AHEAD=30, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        try:
            with peers.Dbos(here) as other:
                rounds = [_straight_on(here, size, other) for _ in range(ROUNDS)]
        finally:
            _drop_dbos(server, here)
    with place(server, redis_url, GENEVA_RUN_AHEAD=0, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        rounds_of_jobs = [_one_by_one(here, max(size // 5, 1)) for _ in range(ROUNDS)]
    return [_row(list(turns)) for each in (rounds, rounds_of_jobs) for turns in zip(*each, strict=True)]


def _straight_on(here: Place, size: int, other: peers.Dbos) -> list[Turn]:
    beside = {"Core and RQ floor": peers.creation_floor(here, size), "DBOS start_workflow": other.starts(size)}
    created = _created(here, size, beside)
    beside = {"Core floor": peers.core_floor(here, size * 10), "DBOS": other.steps(size)}
    return [created, _run(here, (size + 1) * 10, "ten steps straight on, --no-fork", beside)]


def _one_by_one(here: Place, number: int) -> list[Turn]:
    turns = []
    for fork in (False, True):
        beside = {"bare RQ no-op": peers.rq_no_op(here, number * 10, fork=fork)}
        _create(here, number)
        what = f"one job a step, {'forked' if fork else '--no-fork'}"
        turns.append(_run(here, number * 10, what, beside, fork=fork))
    return turns


def told(row: Row) -> str:
    """One row in words."""
    costs = "  ".join(f"{number:5.2f} {name}" for name, number in row["costs"].items())
    return f"{row['what']:34} {row['per_second']:6.0f}/s  {costs or '(not counted: done by children)'}  {row['beside']}"


def _created(here: Place, size: int, beside: Beside) -> Turn:
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
    return _turn(here, "create and commit, one by one", size, measured["wall"], beside)


def _create(here: Place, number: int) -> None:
    for parcel in here.parcels(number):
        TenSteps.create(hero=parcel)
    db.session.commit()


def _run(here: Place, steps: int, what: str, beside: Beside, *, fork: bool = False) -> Turn:
    here.counted.reset()
    with stopwatch() as measured:
        while here.app.extensions["geneva"].queue.rq_queue().count:
            run_worker(here.app, [], burst=True, fork=fork)
    left = db.session.execute(text("SELECT count(*) FROM geneva_workflows WHERE state <> 'finished' AND type <> 'x'"))
    assert left.scalar_one() == 0, "not every workflow is finished"
    return _turn(here, what, steps, measured["wall"], beside, fork=fork)


def _turn(here: Place, what: str, number: int, seconds: float, beside: Beside, *, fork: bool = False) -> Turn:
    counted = here.counted
    said = {
        "statements": counted.statements,
        "commits": counted.commits,
        "round trips to the database": counted.round_trips,
        "to Redis": counted.messages,
    }
    # What the children say is not heard here.
    costs = {} if fork else {name: times / number for name, times in said.items()}
    return Turn(what, number / seconds, costs, beside)


def _row(turns: list[Turn]) -> Row:
    """Take the medians of the turns; a ratio is that of one turn."""
    first = turns[0]
    ratios = {
        name: [turn.per_second / turn.beside[name] for turn in turns] for name, other in first.beside.items() if other
    }
    said = [f"{median(found):.2f} x {name} ({min(found):.2f} to {max(found):.2f})" for name, found in ratios.items()]
    said += [f"{name} is not installed" for name, other in first.beside.items() if not other]
    return {
        "what": first.what,
        "per_second": median(turn.per_second for turn in turns),
        "costs": first.costs,
        "ratios": {name: median(found) for name, found in ratios.items()},
        "ratios_of_turns": ratios,
        "beside": ", ".join(said),
    }


def _drop_dbos(server: str, here: Place) -> None:
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {make_url(here.database_url).database}_dbos"))
    engine.dispose()
