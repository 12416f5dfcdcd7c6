"""Looking at all rows, and acting as another process does: with a session and a connection of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import select

from flask_geneva import Workflow
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.records.tables import TABLES
from tests.engine.flows import reload, run_job
from tests.harness.models import db


@contextmanager
def elsewhere() -> Iterator[None]:
    """Be another process within the block."""
    app = current_runtime().app
    with app.app_context():
        yield


def press(workflow_id: int, verb: str, *arguments: Any) -> None:
    """Press a button elsewhere and commit."""
    with elsewhere():
        getattr(db.session.get_one(Workflow, workflow_id), verb)(*arguments)
        db.session.commit()


def pressing(*verbs: str) -> Callable[[Any], None]:
    """Something to happen elsewhere while the step runs."""

    def press_all(running: Any) -> None:
        # A step that has read holds a snapshot on some databases; the engine must not decide by it.
        assert running.hero is not None
        for verb in verbs:
            press(running.id, verb)

    return press_all


def run_step(workflow: Workflow[Any]) -> Workflow[Any]:
    """Let the job of what is open come, whenever it is due; it runs straight on where nothing stops it."""
    execution = workflow.current_execution
    assert execution is not None
    run_job(execution.id, ignores_time=True, runs_ahead=True)
    return reload(workflow)


def all_rows() -> list[tuple[Any, ...]]:
    """Every row of the library's tables with all its columns, as this transaction sees them."""
    return [tuple(row) for table in TABLES for row in db.session.execute(select(*table.c).order_by(table.c.id))]


@contextmanager
def nothing_written() -> Iterator[None]:
    """Fail when a row was changed within the block, committed or not."""
    before = all_rows()
    yield
    db.session.flush()
    assert all_rows() == before


Plan = dict[str, Callable[..., Any]]
Ledger = Callable[[Any], list[str]]
