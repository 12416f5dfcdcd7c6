"""What everyday work costs among a thousand, a hundred thousand and a million workflows: times, ratios, statements.

``python -m benchmarks scale`` works on PostgreSQL, in databases of its own; the Redis database is emptied.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import select, text

from benchmarks.place import Parcel, Place, TenSteps, db, nothing, place
from benchmarks.scale_loader import FIRST_PARKED, load
from flask_geneva import Workflow
from flask_geneva import step as declared_step
from flask_geneva.engine.executor import execute
from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import JobRequest, current_runtime
from flask_geneva.housekeeping.run import run_housekeeping
from flask_geneva.insights.checking import check
from flask_geneva.insights.gauges import read_gauges
from flask_geneva.insights.listing import Selection, page_of
from flask_geneva.insights.timelines import timeline_of
from flask_geneva.records.tables import step_executions
from flask_geneva.states import StepState, WorkflowState

ROUNDS = 25
# A run of housekeeping looks at so many rows of each kind; fewer than there are at any size.
BATCH = 50


class Shipment(Workflow[Any]):
    """What the loader writes: packed once, then delivered after a while, then confirmed from outside."""

    pack = declared_step(nothing)
    deliver = declared_step(nothing, wait=3 * 24 * 3600)
    confirm = declared_step(nothing, wait_for="received")


@dataclass(kw_only=True)
class Scene:
    """A database of one size, and the workflows in it that the work takes one after the other."""

    here: Place
    size: int
    parked: Iterator[int] = field(init=False)
    waiting: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self.parked = iter(range(1, FIRST_PARKED + 1))
        # Those at 2 to 9 of each hundred wait for time; they are taken from all over the table.
        waiting = [number for number in range(FIRST_PARKED, self.size) if 2 <= number % 100 <= 9]
        self.waiting = iter(waiting[:: len(waiting) // (2 * ROUNDS)])


def wake(scene: Scene) -> None:
    """Deliver the signal that a step is parked for."""
    db.session.get_one(Workflow, next(scene.parked)).signal("received", {"n": 1}, idempotency_key="once")
    db.session.commit()


def create(scene: Scene) -> None:
    """Create a workflow for a new hero."""
    parcel = Parcel()
    db.session.add(parcel)
    TenSteps.create(hero=parcel)
    db.session.commit()


def step(scene: Scene) -> None:
    """Perform a step that waited for time."""
    workflow_id = next(scene.waiting)
    is_next = (step_executions.c.workflow_id == workflow_id, step_executions.c.state == StepState.SCHEDULED)
    execution_id = db.session.execute(select(step_executions.c.id).where(*is_next)).scalar_one()
    db.session.rollback()
    execute(Run(current_runtime(), db.session(), ignores_time=True, runs_ahead=False), execution_id)


def page(**conditions: Any) -> Callable[[Scene], object]:
    """Read a page of a list."""
    return lambda scene: page_of(db.session(), Selection(**conditions))


def page_amid(scene: Scene) -> None:
    """Read a page in the middle of the whole list."""
    page_of(db.session(), Selection(), before_id=scene.size // 2)


def page_by_age(scene: Scene) -> None:
    """Read a page of those that were created before half of the others."""
    page_of(db.session(), Selection(created_before=current_runtime().now() - timedelta(days=14.5)))


def next_page_by_age(scene: Scene) -> None:
    """Read a page of the same that begins in their midst."""
    older = Selection(created_before=current_runtime().now() - timedelta(days=14.5))
    page_of(db.session(), older, before_id=scene.size // 4)


def page_by_hero(scene: Scene) -> None:
    """Read a page of one hero's workflows."""
    page_of(db.session(), Selection(hero=f"Parcel:{scene.size // 2}"))


def page_by_hero_id(scene: Scene) -> None:
    """Read a page of the workflows of the heroes with one id."""
    page_of(db.session(), Selection(search=f"{scene.size // 2}"))


def newest(scene: Scene) -> None:
    """Read the list of what was created in the last hours."""
    hours = 29 * 24 * 200 / scene.size
    page_of(db.session(), Selection(created_after=current_runtime().now() - timedelta(hours=hours)))


def timeline(scene: Scene) -> None:
    """Read all of one workflow."""
    timeline_of(db.session(), scene.size // 2)


def gauges(scene: Scene) -> None:
    """Count everything."""
    read_gauges(db.session(), current_runtime())


def count_bare(scene: Scene) -> None:
    """Count the workflows as the database does it by itself: what counting takes at least."""
    db.session.execute(text("SELECT count(*) FROM geneva_workflows"))


def check_code(scene: Scene) -> None:
    """Compare the code with the rows in flight."""
    check(db.session(), current_runtime())


def housekeeping(scene: Scene) -> None:
    """Do one run in which nothing is to be mended."""
    done = run_housekeeping(current_runtime())
    assert not any(done.as_dict().values()), done


WORK: dict[str, Callable[[Scene], object]] = {
    "wake: signal() and commit": wake,
    "create() and commit": create,
    "step: begin, perform, end": step,
    "list: first page": page(),
    "list: page in the middle": page_amid,
    "list: a class": page(class_name="Shipment"),
    "list: a class that has no rows": page(class_name="TenSteps", states=(WorkflowState.PAUSED,)),
    "list: paused, which are few": page(states=(WorkflowState.PAUSED,)),
    "list: ready": page(states=(WorkflowState.READY,)),
    "list: a class and a state": page(class_name="Shipment", states=(WorkflowState.CANCELED,)),
    "list: at a step": page(step_name="confirm"),
    "list: at a step where nobody stands": page(step_name="pack"),
    "list: a hero": page_by_hero,
    "list: an id of whatever hero": page_by_hero_id,
    "list: older than half of them": page_by_age,
    "list: newer than all but 200": newest,
    "show: the whole timeline": timeline,
    "list: older than half of them, next page": next_page_by_age,
    "bare: SELECT count(*) of all workflows": count_bare,
    "gauges": gauges,
    "check": check_code,
    "housekeeping: a run that finds nothing": housekeeping,
}


@dataclass(kw_only=True)
class Cost:
    """Of one kind of work at one size."""

    milliseconds: list[float] = field(default_factory=list)
    statements: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds)


def measure(database: str, redis: str, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Measure each kind of work at each size, by turns."""
    with ExitStack() as stack:
        scenes = [Scene(here=stack.enter_context(_filled(database, redis, size)), size=size) for size in sizes]
        for scene in scenes:
            with scene.here.app.app_context():
                _send_jobs()
        return [_row(name, sizes, _costs(scenes, work)) for name, work in WORK.items()]


def told(row: dict[str, Any]) -> str:
    """One row in words."""
    cells = [
        f"{size:,}: {cost['milliseconds']:.2f} ms x{cost['ratio']:.2f} ({cost['statements']})"
        for size, cost in row["sizes"].items()
    ]
    return f"{row['what']:38}" + "".join(f"{cell:>34}" for cell in cells)


def _row(name: str, sizes: Sequence[int], costs: list[Cost]) -> dict[str, Any]:
    return {
        "what": name,
        "sizes": {
            size: {
                "milliseconds": cost.median,
                "ratio": cost.median / costs[0].median,
                "statements": cost.statements,
            }
            for size, cost in zip(sizes, costs, strict=True)
        },
    }


def _costs(scenes: list[Scene], work: Callable[[Scene], object]) -> list[Cost]:
    costs = [Cost() for _ in scenes]
    # The first ones compile the statements and fill the caches.
    for number in range(-2, ROUNDS):
        for scene, cost in zip(scenes, costs, strict=True):
            with scene.here.app.app_context():
                scene.here.counted.reset()
                began = time.perf_counter()
                work(scene)
                if number >= 0:
                    cost.milliseconds.append((time.perf_counter() - began) * 1000)
                    cost.statements = scene.here.counted.statements
    return costs


@contextlib.contextmanager
def _filled(database: str, redis: str, size: int) -> Iterator[Place]:
    config = {"GENEVA_QUEUE": f"scale{size}", "GENEVA_HOUSEKEEPING_BATCH_SIZE": BATCH}
    with place(database, redis, **config) as here:
        load(here.database_url, size)
        db.session.execute(text("INSERT INTO parcels (id) SELECT generate_series(1, :size)"), {"size": size})
        db.session.execute(text("SELECT setval('parcels_id_seq', :size)"), {"size": size})
        db.session.commit()
        yield here


def _send_jobs() -> None:
    """Send the jobs of what is due, or will be before long, as the engine would have done."""
    runtime = current_runtime()
    columns = step_executions.c
    horizon = runtime.now() + timedelta(days=1)
    due = (columns.state == StepState.SCHEDULED, columns.scheduled_for <= horizon)
    rows = db.session.execute(select(columns.id, columns.job_id, columns.scheduled_for).where(*due)).all()
    now = runtime.now()
    for start in range(0, len(rows), 1000):
        runtime.queue.enqueue(
            [
                JobRequest(job_id=job_id, execution_id=id_, due=moment if moment > now else None, options={})
                for id_, job_id, moment in rows[start : start + 1000]
            ]
        )
