"""What SQLite needs to hold the same promises as the others: one writer at a time, chosen before it reads.

Python's driver opens a transaction by itself before the first write, not before a SELECT or a SAVEPOINT. Left so, a
savepoint outside a transaction would be one of its own and commit when released, and a deferred transaction that has
read cannot always become a writer ("database is locked"). So every transaction that the driver opens is an immediate
one, a savepoint opens one first, and reads open none: each sees the newest commit.
"""

from __future__ import annotations

import sqlite3
from typing import Any, cast

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError

BUSY_TIMEOUT_MS = 30_000
_BEGIN = "BEGIN IMMEDIATE"


def configure(engine: Engine) -> None:
    """Set up an SQLite engine; a second call changes nothing, another database's engine is left alone."""
    if engine.dialect.name != "sqlite" or event.contains(engine, "connect", _on_connect):
        return
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "savepoint", _on_savepoint)


def begin_immediate(connection: Connection) -> None:
    """Become the writer, unless the connection is in a transaction already."""
    raw = connection.connection.dbapi_connection
    if raw is None or raw.in_transaction:
        return
    try:
        # As the driver does it: a beginning is no statement of the application's.
        cast("Any", raw).execute(_BEGIN)
    except sqlite3.OperationalError as error:
        raise OperationalError(_BEGIN, None, error) from error


def _on_connect(raw: Any, record: object) -> None:
    raw.isolation_level = "IMMEDIATE"
    cursor = raw.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.close()


def _on_savepoint(connection: Connection, name: str) -> None:
    begin_immediate(connection)
