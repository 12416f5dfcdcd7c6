"""Looking at all rows, and acting as another process does: with a session and a connection of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import select

from flask_geneva import Workflow
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.records.tables import TABLES
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
