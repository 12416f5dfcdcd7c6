"""Locks and transient errors.

Lock order: the workflow row first, then its execution, then its signals; nothing else is locked. A signal gets its
idempotency key, for which a unique index lets one writer wait for another, when its workflow is locked.

A step holds no lock while it runs. One that sends signals takes the locks of their workflows and its own when it
commits, in the order of the workflows' ids and before it writes its execution's row (see :mod:`.outgoing_signals`).
A handler that acts before the step's body has its own workflow's lock already when it sends; should two such wait for
one another, the database ends one, and it is begun again. Who acts on several workflows in one transaction outside of
a step keeps an order himself.

Every reader that decides by what it reads under the lock reads the newest committed version, not its transaction's
snapshot.
"""

from __future__ import annotations

import logging
import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

from sqlalchemy import BindParameter, ColumnElement, Connection, Select, Table, bindparam, event, select
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session, SessionTransaction

from flask_geneva.records.dialects import MYSQL_DIALECTS
from flask_geneva.records.saving import AnyRow, Row
from flask_geneva.records.sqlite import begin_immediate
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import OPEN_STEP_STATES

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
Pair = tuple[WorkflowRow, ExecutionRow]

ATTEMPTS = 6
_FRESH = "geneva_fresh_reads"

# Not what only people read: it costs as much as the rest, and a backtrace may be long.
_UNREAD = {"error_class_name", "error_message", "error_backtrace", "finished_at", "created_at", "updated_at"} | {
    f"{end}_at" for end in ("completed", "failed", "canceled", "skipped")
}
_WORKFLOW_KEYS = tuple(workflows.c.keys())
_EXECUTION_KEYS = tuple(key for key in step_executions.c.keys() if key not in _UNREAD)  # noqa: SIM118
_BOTH = select(*workflows.c, *(step_executions.c[key] for key in _EXECUTION_KEYS))
_EXECUTION_ID: BindParameter[int] = bindparam("execution_id")

# On PostgreSQL the weaker FOR NO KEY UPDATE: it excludes every writer of the row, and lets a child row be inserted.
_THE_WORKFLOW = select(*workflows.c).where(workflows.c.id == bindparam("workflow_id"))
_LOCK_WORKFLOW = _THE_WORKFLOW.with_for_update(key_share=True)
_LOCK_FREE_WORKFLOW = _THE_WORKFLOW.with_for_update(key_share=True, skip_locked=True)
_THE_TWO = _BOTH.where(
    workflows.c.id == bindparam("workflow_id"),
    step_executions.c.id == _EXECUTION_ID,
    step_executions.c.workflow_id == workflows.c.id,
)
_LOCK_BOTH = _THE_TWO.with_for_update(key_share=True)
_LOCK_BOTH_FREE = _THE_TWO.with_for_update(key_share=True, skip_locked=True)
_OWNER = select(step_executions.c.workflow_id).where(step_executions.c.id == _EXECUTION_ID)
_LOCK_BY_EXECUTION = _BOTH.where(
    workflows.c.id == _OWNER.scalar_subquery(),
    step_executions.c.id == _EXECUTION_ID,
    step_executions.c.workflow_id == workflows.c.id,
).with_for_update(key_share=True)


def lock_workflow(session: Session, workflow_id: int) -> WorkflowRow | None:
    """Lock and read a workflow; None when it is gone."""
    return _lock_workflow(session, workflow_id, _LOCK_WORKFLOW)


def read_workflow(session: Session, workflow_id: int) -> WorkflowRow | None:
    """Read a workflow without a lock; None when it is gone."""
    row = session.connection().execute(_THE_WORKFLOW, {"workflow_id": workflow_id}).one_or_none()
    return None if row is None else WorkflowRow(dict(zip(_WORKFLOW_KEYS, row, strict=True)))


def lock_free_workflow(session: Session, workflow_id: int) -> WorkflowRow | None:
    """Lock and read a workflow that nobody has locked; else None at once, where the database has row locks."""
    return _lock_workflow(session, workflow_id, _LOCK_FREE_WORKFLOW)


def lock_execution(session: Session, execution_id: int) -> Pair | None:
    """Lock and read an execution with its workflow, in a transaction that did nothing yet; None when it is gone."""
    begin_writing(session)
    connection = session.connection()
    if connection.dialect.name not in MYSQL_DIALECTS:
        return _pair(connection.execute(_LOCK_BY_EXECUTION, {"execution_id": execution_id}).one_or_none())
    # InnoDB may take the locks of this join in the other order; of two known keys it takes them as they are listed.
    workflow_id = connection.execute(_OWNER, {"execution_id": execution_id}).scalar_one_or_none()
    return None if workflow_id is None else lock_both(session, workflow_id, execution_id)


def lock_both(session: Session, workflow_id: int, execution_id: int) -> Pair | None:
    """Lock and read a workflow and one of its executions; None when either is gone."""
    return _lock_pair(session, workflow_id, execution_id, _LOCK_BOTH)


def lock_free_pair(session: Session, workflow_id: int, execution_id: int) -> Pair | None:
    """Lock and read both rows when nobody has locked them; else None at once, where the database has row locks."""
    return _lock_pair(session, workflow_id, execution_id, _LOCK_BOTH_FREE)


def read_current(session: Session, kind: type[AnyRow], *where: ColumnElement[bool]) -> list[AnyRow]:
    """Read rows by a unique key, in the newest committed version; their workflow's lock must be held."""
    return _rows(session, kind, current(session, _select(kind, *where)))


def read_of_workflow(
    session: Session, kind: type[AnyRow], workflow_id: int, *where: ColumnElement[bool]
) -> list[AnyRow]:
    """Read rows of one workflow in the order of their ids, likewise."""
    statement = _select(kind, kind.table.c.workflow_id == workflow_id, *where)
    return _rows(session, kind, current_of_workflow(session, statement, kind.table))


def open_executions(session: Session, workflow_id: int) -> list[ExecutionRow]:
    """Read the workflow's executions that have not ended; there is at most one, but for rows written by hand."""
    return read_of_workflow(session, ExecutionRow, workflow_id, step_executions.c.state.in_(OPEN_STEP_STATES))


def newest_execution(session: Session, workflow_id: int, step_name: str | None) -> ExecutionRow | None:
    """Read the latest attempt at a step."""
    of_step = (step_executions.c.workflow_id == workflow_id, step_executions.c.step_name == step_name)
    newest = _select(ExecutionRow, *of_step).order_by(None).order_by(step_executions.c.id.desc()).limit(1)
    rows = _rows(session, ExecutionRow, current_of_workflow(session, newest, step_executions))
    return rows[0] if rows else None


def current_of_workflow(session: Session, statement: Select[Any], table: Table) -> Select[Any]:
    """Make a SELECT of one workflow's rows see the newest ones, and on MySQL lock these alone.

    There a locking read locks all that it looks at, and by the index of states it would look at the rows of others.
    """
    for dialect in MYSQL_DIALECTS:
        statement = statement.with_hint(table, f"FORCE INDEX (ix_{table.name}_workflow_id_state)", dialect)
    return current(session, statement)


def current(session: Session, statement: Select[Any]) -> Select[Any]:
    """Make a SELECT see the newest committed rows, where the database would show a snapshot."""
    return statement.with_for_update(key_share=True) if _has_snapshot(session) else statement


def current_shared(session: Session, statement: Select[Any]) -> Select[Any]:
    """Likewise, for a row that several may look at at once after a unique index has refused them.

    Each of them holds a shared lock on it then, and asking for more they would wait for one another.
    """
    return statement.with_for_update(read=True) if _has_snapshot(session) else statement


def begin_writing(session: Session) -> None:
    """On SQLite take the writer's lock, which there is instead of row locks; elsewhere do nothing."""
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        begin_immediate(connection)


def listen(sessions: Any) -> None:
    """Make :func:`fresh_reads` work for these sessions; a second call changes nothing."""
    if not event.contains(sessions, "after_begin", _after_begin):
        event.listen(sessions, "after_begin", _after_begin)


@contextmanager
def fresh_reads(session: Session) -> Iterator[None]:
    """Let each statement within see what is committed by then, as everywhere but on MySQL it does by itself.

    There transactions begin as READ COMMITTED: conditions are not answered by an old snapshot, and what a workflow
    reads under its lock neither waits for rows that others are inserting nor keeps them from inserting.
    """
    session.info[_FRESH] = True
    try:
        yield
    finally:
        session.info.pop(_FRESH, None)


def _after_begin(session: Session, transaction: SessionTransaction, connection: Connection) -> None:
    if transaction.nested or connection.dialect.name not in MYSQL_DIALECTS or not session.info.get(_FRESH):
        return
    cursor = connection.connection.cursor()
    # Refused inside a transaction that somebody else has begun on the connection, as tests do: then all is one anyway.
    with suppress(cast("Any", connection.dialect).loaded_dbapi.Error):
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    cursor.close()


def _has_snapshot(session: Session) -> bool:
    return session.get_bind().dialect.name in MYSQL_DIALECTS and not session.info.get(_FRESH)


@contextmanager
def trial(session: Session) -> Iterator[None]:
    """Run the user's code behind a savepoint that is rolled back in any case: it may look but not write."""
    savepoint = session.begin_nested()
    try:
        yield
    finally:
        undo(session, savepoint)


def undo(session: Session, savepoint: SessionTransaction) -> None:
    """Roll a savepoint back, also one that a failed flush has left; where the user's code has ended it, do nothing."""
    if savepoint.is_active or session.get_nested_transaction() is savepoint:
        savepoint.rollback()


def retry_transient(session: Session, work: Callable[[], Result]) -> Result:
    """Do work in transactions of its own again while the database asks for patience; roll back before each retry."""
    for attempt in range(1, ATTEMPTS):
        try:
            return work()
        except DBAPIError as error:
            session.rollback()
            if not is_transient(error):
                raise
            logger.info("The database asked for a retry (%d of %d): %s", attempt, ATTEMPTS, error.orig)
            time.sleep(random.uniform(0.5, 1.5) * 0.02 * 2**attempt)
    return work()


def is_spent_by(session: Session, error: BaseException) -> bool:
    """Whether the error has left a transaction that takes no more statements, as PostgreSQL's own errors do."""
    return isinstance(error, DBAPIError) and session.get_bind().dialect.name == "postgresql"


# SQLSTATE of PostgreSQL: serialisation failure, deadlock, lock not available, server going down or starting.
_SQLSTATES = frozenset({"40001", "40P01", "55P03", "57P01", "57P02", "57P03"})
# Errors of MySQL and MariaDB: changed since last read, lock wait timeout, deadlock, server unreachable, gone or lost.
_MYSQL_CODES = frozenset({1020, 1205, 1213, 2003, 2006, 2013})
# A deadlock takes the savepoints along, and SQLAlchemy, which then rolls back to one, is told that there is none.
_MYSQL_NO_SAVEPOINT = 1305


def is_transient(error: BaseException) -> bool:
    """Whether the same work, done again, may succeed: deadlock, serialisation failure, busy SQLite, lost connection."""
    if not isinstance(error, DBAPIError):
        return False
    original: Any = error.orig
    if error.connection_invalidated:
        return True
    if isinstance(original, sqlite3.OperationalError):
        return "locked" in str(original) or "busy" in str(original)
    arguments: Sequence[Any] = getattr(original, "args", ())
    if arguments and isinstance(arguments[0], int):
        # MySQL's own codes; newer PyMySQL has a sqlstate, too, but "general error" for half of them.
        is_savepoint_gone = arguments[0] == _MYSQL_NO_SAVEPOINT and "SAVEPOINT" in str(original)
        return arguments[0] in _MYSQL_CODES or is_savepoint_gone
    sqlstate = getattr(original, "sqlstate", None)
    if sqlstate is None:
        # psycopg gives none where there was no server to give one.
        return isinstance(error, OperationalError)
    return sqlstate in _SQLSTATES or sqlstate.startswith("08")


def _lock_workflow(session: Session, workflow_id: int, statement: Select[Any]) -> WorkflowRow | None:
    begin_writing(session)
    row = session.connection().execute(statement, {"workflow_id": workflow_id}).one_or_none()
    return None if row is None else WorkflowRow(dict(zip(_WORKFLOW_KEYS, row, strict=True)))


def _lock_pair(session: Session, workflow_id: int, execution_id: int, statement: Select[Any]) -> Pair | None:
    begin_writing(session)
    parameters = {"workflow_id": workflow_id, "execution_id": execution_id}
    return _pair(session.connection().execute(statement, parameters).one_or_none())


def _select(kind: type[Row], *where: ColumnElement[bool]) -> Select[Any]:
    return select(*kind.table.c).where(*where).order_by(kind.table.c.id)


def _rows(session: Session, kind: type[AnyRow], statement: Select[Any]) -> list[AnyRow]:
    keys = kind.table.c.keys()
    return [kind(dict(zip(keys, row, strict=True))) for row in session.connection().execute(statement)]


def _pair(row: Any) -> Pair | None:
    if row is None:
        return None
    split = len(_WORKFLOW_KEYS)
    workflow = WorkflowRow(dict(zip(_WORKFLOW_KEYS, row[:split], strict=True)))
    return workflow, ExecutionRow(dict(zip(_EXECUTION_KEYS, row[split:], strict=True)))
