"""Workflows that ended longer ago than they are kept: deleted with their signals and executions, batch by batch.

What other parts of the library keep as long, the log of webhook deliveries, goes likewise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, CursorResult, Table, and_, delete, or_, select, true

from flask_geneva.engine.runtime import Perishables
from flask_geneva.errors import MigrationMissing
from flask_geneva.housekeeping.tasks import Counts, Sweep, Task
from flask_geneva.records.tables import signals, step_executions, workflows
from flask_geneva.states import ENDED_WORKFLOW_STATES, WorkflowState

logger = logging.getLogger(__name__)

# Ids go into the statement one by one, and databases take no more than some ten thousand.
MAX_IDS = 1000

_W = workflows.c


def retention(sweep: Sweep) -> Iterator[Task]:
    """Find workflows that ended long ago. Nothing is read of a row but its key."""
    age = sweep.runtime.settings.delete_completed_workflows_after
    if age is None:
        return
    for state in ENDED_WORKFLOW_STATES:
        for workflow_ids in _pages(sweep, state, sweep.now - age):
            yield from _of_workflows(sweep, signals, workflow_ids, "signals_cleaned_up")
            yield from _of_workflows(sweep, step_executions, workflow_ids, "step_executions_cleaned_up")
            yield _delete_workflows(sweep, workflow_ids)
    for perishables in sweep.runtime.perishables:
        yield from _perished(sweep, perishables, sweep.now - age)


def _perished(sweep: Sweep, perishables: Perishables, cutoff: datetime) -> Iterator[Task]:
    """Delete batch after batch until one is not full; one that failed is left to the next run."""
    size = min(sweep.batch_size, MAX_IDS)
    last = 0

    def work() -> Counts:
        nonlocal last
        try:
            last = perishables.delete_older_than(sweep.session, cutoff, size)
        except MigrationMissing as missing:
            sweep.session.rollback()
            logger.warning("Nothing of that kind is deleted yet: %s", missing)
        return {perishables.field: last}

    while True:
        last = 0
        yield Task(subject=f"rows for {perishables.field}", work=work)
        if last < size:
            return


def _pages(sweep: Sweep, state: WorkflowState, cutoff: datetime) -> Iterator[list[int]]:
    """Read pages by the time of the end and the primary key, so that a row that cannot be deleted is not met again."""
    last: Any = None
    size = min(sweep.batch_size, MAX_IDS)
    while True:
        rows = sweep.read(
            select(_W.id, _W.transitioned_at)
            .where(_W.state == state, _W.transitioned_at < cutoff, _behind(last))
            .order_by(_W.transitioned_at, _W.id)
            .limit(size)
        )
        if rows:
            yield [row.id for row in rows]
            last = rows[-1]
        if len(rows) < size:
            return


def _behind(last: Any) -> ColumnElement[bool]:
    if last is None:
        return true()
    moment = _W.transitioned_at
    return or_(moment > last.transitioned_at, and_(moment == last.transitioned_at, _W.id > last.id))


def _of_workflows(sweep: Sweep, table: Table, workflow_ids: Sequence[int], field: str) -> Iterator[Task]:
    size = min(sweep.batch_size, MAX_IDS)
    last_id = 0
    while True:
        where = (table.c.workflow_id.in_(workflow_ids), table.c.id > last_id)
        try:
            rows = sweep.read(select(table.c.id).where(*where).order_by(table.c.id).limit(size))
        except MigrationMissing:
            # Where there is no such table yet, the workflows have no rows in it.
            sweep.session.rollback()
            return
        if rows:
            yield _delete(sweep, table, [row.id for row in rows], field)
            last_id = rows[-1].id
        if len(rows) < size:
            return


def _delete_workflows(sweep: Sweep, workflow_ids: Sequence[int]) -> Task:
    return _delete(sweep, workflows, workflow_ids, "workflows_cleaned_up")


def _delete(sweep: Sweep, table: Table, ids: Sequence[int], field: str) -> Task:
    """Delete in one statement; where the application's own tables hold one of the rows, each for itself."""

    def work() -> Counts:
        result = sweep.session.connection().execute(delete(table).where(table.c.id.in_(ids)))
        return {field: cast("CursorResult[Any]", result).rowcount}

    def parts() -> Iterator[Task]:
        if len(ids) > 1:
            yield from (_delete(sweep, table, [each], field) for each in ids)

    return Task(subject=f"{len(ids)} rows of {table.name} from #{ids[0]}", work=work, parts=parts)
