"""Tables or columns of ours that the database lacks: found out beforehand, or told as what they are.

Which columns a database lacks is asked on an engine's first connection. One that has all is not asked again. One that
has not is asked on every connection, so that no process needs to be started again after the migration; and nothing
that is compiled meanwhile is kept, since it would go on to read them as empty.

What is missed beyond those is an error of the database's, and is raised as a migration that was not run.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import ExceptionContext

from flask_geneva.errors import MigrationMissing
from flask_geneva.records.dialects import MYSQL_DIALECTS
from flask_geneva.records.later_columns import known_lacking, later_columns_of, note_lacking
from flask_geneva.records.tables import step_executions

# PostgreSQL: undefined table, undefined column. MySQL and MariaDB: no such table, unknown column.
_SQLSTATES = frozenset({"42P01", "42703"})
_MYSQL_CODES = frozenset({1146, 1054})
_SQLITE = re.compile("no such table|no such column|has no column named")
_WORK = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
_OURS = re.compile("geneva_(workflows|step_executions|signals|webhook_deliveries)")

_TABLE = step_executions.name
_LATER = later_columns_of(step_executions)
# No table has no columns; each looks where an unqualified name would be looked for.
_COLUMN_NAMES = {
    "sqlite": f"SELECT name FROM pragma_table_info('{_TABLE}')",
    "postgresql": f"SELECT attname FROM pg_attribute WHERE NOT attisdropped AND attrelid = to_regclass('{_TABLE}')",
} | dict.fromkeys(
    MYSQL_DIALECTS,
    f"SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = '{_TABLE}'",
)


def listen(engine: Engine) -> None:
    """Do so for this engine; a second call changes nothing."""
    if not event.contains(engine, "handle_error", _on_error):
        event.listen(engine, "handle_error", _on_error)
        event.listen(engine, "engine_connect", _on_connection)


def _on_connection(connection: Connection) -> None:
    dialect = connection.dialect
    lacking = known_lacking(dialect)
    if lacking is None or lacking:
        lacking = _look(connection)
        note_lacking(dialect, lacking)
    if lacking:
        connection.execution_options(compiled_cache=None)


def _look(connection: Connection) -> frozenset[str] | None:
    """Ask beside the transactions of SQLAlchemy, none of which has begun; None where there is no table to look at."""
    names = _column_names(connection)
    return frozenset(f"{_TABLE}.{name}" for name in _LATER if name not in names) if names else None


def _column_names(connection: Connection) -> set[str]:
    raw = connection.connection
    try:
        cursor = raw.cursor()
        try:
            cursor.execute(_COLUMN_NAMES[connection.dialect.name])
            return {row[0] for row in cursor.fetchall()}
        finally:
            cursor.close()
            # SQLite has begun none, and its one connection may be in somebody else's.
            if connection.dialect.name != "sqlite":
                raw.rollback()
    except cast("Any", connection.dialect).loaded_dbapi.Error:
        # The next statement meets the same, and then it is translated.
        return set()


def _on_error(context: ExceptionContext) -> None:
    # Not a DESCRIBE or the like: by its error SQLAlchemy finds out whether a table is there.
    if context.statement is None or not _WORK.match(context.statement):
        return
    if not _lacks_something(context.original_exception):
        return
    first_line = str(context.original_exception).splitlines()[0]
    ours = _OURS.search(first_line) or _OURS.search(context.statement)
    if ours is not None:
        if not known_lacking(context.dialect):
            # What was there has gone: the next connection is to look again.
            note_lacking(context.dialect, None)
        missing = MigrationMissing(f"what this operation needs of '{ours[0]}' ({first_line})")
        raise missing from context.sqlalchemy_exception


def _lacks_something(error: Any) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return _SQLITE.search(str(error)) is not None
    # Newer PyMySQL has a sqlstate, too, but the codes are finer.
    arguments: Sequence[Any] = getattr(error, "args", ())
    return getattr(error, "sqlstate", None) in _SQLSTATES or (bool(arguments) and arguments[0] in _MYSQL_CODES)
