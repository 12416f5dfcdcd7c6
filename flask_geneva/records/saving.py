"""Rows free of any session, and the statements that store what was changed on them.

The engine reads rows with Core, changes them in memory and stores each with one statement, or several with one. An
UPDATE is guarded by the state that was read: where another process moved the row meanwhile, nothing is written and
:class:`StaleRow` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeVar, cast

from sqlalchemy import Connection, CursorResult, Insert, Table, Update, bindparam, insert, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningInsert

from flask_geneva.records.bulk_insertion import can_insert_in_bulk, insert_in_bulk
from flask_geneva.records.dialects import MYSQL_DIALECTS, insert_with_conflicts
from flask_geneva.records.joint_writes import Write, can_join, write_jointly
from flask_geneva.records.later_columns import storable
from flask_geneva.records.savepoints import savepoint


class StaleRow(Exception):
    """The row is not in the state any more in which it was read."""


class Row:
    """One row of a table with the changes that are not stored yet."""

    table: ClassVar[Table]
    # Made once: to ask a table for its columns, or to build a statement, costs as much as what it is done for.
    _keys: ClassVar[tuple[str, ...]]
    _insertion: ClassVar[Insert]
    _insertion_of_many: ClassVar[ReturningInsert[Any]]
    _guarded_update: ClassVar[Update]
    _changes: dict[str, Any]
    _stored_state: Any

    def __init_subclass__(cls) -> None:
        columns = cls.table.c
        cls._keys = tuple(columns.keys())
        cls._insertion = insert(cls.table)
        cls._insertion_of_many = insert(cls.table).returning(columns.id, sort_by_parameter_order=True)
        guard = (columns.id == bindparam("row_id"), columns.state == bindparam("row_state"))
        cls._guarded_update = by_primary_key(update(cls.table)).where(*guard)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)
        self._changes = {}
        self._stored_state = values.get("state")

    @property
    def is_draft(self) -> bool:
        """Not inserted yet."""
        return self.__dict__.get("id") is None

    def change(self, **columns: Any) -> None:
        """Set columns in memory; :func:`save` stores them."""
        self.__dict__.update(columns)
        self._changes.update(columns)

    def _was_stored(self, identity: int) -> None:
        self.__dict__["id"] = identity
        self._changes = {}
        self._stored_state = self.__dict__.get("state")

    def values(self) -> dict[str, Any]:
        """Every column that is known, by attribute name."""
        known = self.__dict__
        return {key: known[key] for key in self._keys if key in known}


def by_primary_key(statement: Update) -> Update:
    """Let MySQL find the row by its key, when the condition names its state too.

    By the index of states it would lock the rows of other workflows on its way.
    """
    for dialect in MYSQL_DIALECTS:
        statement = statement.with_hint("FORCE INDEX (PRIMARY)", dialect_name=dialect)
    return statement


AnyRow = TypeVar("AnyRow", bound=Row)


def draft(kind: type[AnyRow], **columns: Any) -> AnyRow:
    """Return a row that is yet to be inserted; columns that are not named are NULL."""
    row = kind(dict.fromkeys(kind._keys))
    row.change(**columns)
    return row


def save(session: Session, *rows: Row | None, now: datetime) -> None:
    """Insert or update each row that has changes, in one round trip where the database can.

    :raises StaleRow: where one was moved; the transaction is to be rolled back then.
    :raises MigrationMissing: for a value of a column that the database lacks; nothing was written.
    """
    changed = [row for row in rows if row is not None and row._changes]
    if not changed:
        return
    for row in changed:
        row.change(updated_at=now, **({"created_at": now} if row.is_draft else {}))
    connection = session.connection()
    writes = [_write(connection, row) for row in changed]
    identities: Iterable[int | None]
    if len(writes) > 1 and can_join(connection):
        identities = write_jointly(connection, writes)
    else:
        identities = (_carry_out(connection, type(row), write) for row, write in zip(changed, writes, strict=True))
    for row, identity in zip(changed, identities, strict=True):
        if identity is None:
            raise StaleRow(f"{row.table.name} #{row.__dict__['id']} is not '{row._stored_state}' any more")
        row._was_stored(identity)


def insert_all(session: Session, rows: Sequence[Row], *, now: datetime) -> None:
    """Insert drafts of one kind with the same columns set; many with a statement where that tells keys in order."""
    connection = session.connection()
    if not connection.dialect.insert_executemany_returning_sort_by_parameter_order:
        save(session, *rows, now=now)
        return
    for row in rows:
        row.change(updated_at=now, created_at=now)
    for row, key in zip(rows, _insert_many(connection, rows), strict=True):
        row._was_stored(key)


def insert_unless_taken(session: Session, row: Row, *, now: datetime) -> bool:
    """Insert a draft and answer True, or False where a unique index refuses; the transaction stays usable.

    PostgreSQL and SQLite can be told not to mind, which saves the round trips of a savepoint.
    """
    connection = session.connection()
    make = insert_with_conflicts(connection.dialect.name)
    if make is None:
        return _insert_behind_savepoint(session, row, now=now)
    row.change(updated_at=now, created_at=now)
    statement = make(row.table).on_conflict_do_nothing().returning(row.table.c.id)
    values = storable(connection, row.table, row._changes)
    identity = connection.execute(statement, values).scalar_one_or_none()
    if identity is None:
        return False
    row._was_stored(identity)
    return True


def insert_both_unless_taken(session: Session, row: Row, child: Row, *, link: str, now: datetime) -> bool:
    """Insert two drafts, the second with the key of the first in its column ``link``, or neither: as above."""
    connection = session.connection()
    if not can_join(connection):
        if not insert_unless_taken(session, row, now=now):
            return False
        child.change(**{link: row.__dict__["id"]})
        save(session, child, now=now)
        return True
    for each in (row, child):
        each.change(updated_at=now, created_at=now)
    first, second = _write(connection, row), _write(connection, child)
    without_link = {key: value for key, value in second.values.items() if key != link}
    key, key_of_child = write_jointly(
        connection, [first._replace(unless_taken=True), second._replace(values=without_link, link=link)]
    )
    if key is None or key_of_child is None:
        return False
    row._was_stored(key)
    child.change(**{link: key})
    child._was_stored(key_of_child)
    return True


def _insert_behind_savepoint(session: Session, row: Row, *, now: datetime) -> bool:
    try:
        with savepoint(session):
            save(session, row, now=now)
    except IntegrityError:
        return False
    return True


def _write(connection: Connection, row: Row) -> Write:
    values = storable(connection, row.table, row._changes)
    return Write(row.table, values) if row.is_draft else Write(row.table, values, row.__dict__["id"], row._stored_state)


def _insert_many(connection: Connection, rows: Sequence[Row]) -> Iterable[int]:
    if not rows:
        return []
    values = [storable(connection, row.table, row._changes) for row in rows]
    if can_insert_in_bulk(connection):
        return insert_in_bulk(connection, rows[0].table, values)
    return connection.execute(rows[0]._insertion_of_many, values).scalars()


def _carry_out(connection: Connection, kind: type[Row], write: Write) -> int | None:
    if write.identity is None:
        result = cast("CursorResult[Any]", connection.execute(kind._insertion, write.values))
        identity: int | None = cast("Any", result.inserted_primary_key)[0]
        return identity
    parameters = {"row_id": write.identity, "row_state": write.state, **write.values}
    result = cast("CursorResult[Any]", connection.execute(kind._guarded_update, parameters))
    return write.identity if result.rowcount == 1 else None
