"""Tables or columns of ours that the database lacks, told as what they are: a migration that was not run."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext

from flask_geneva.errors import MigrationMissing

# PostgreSQL: undefined table, undefined column. MySQL and MariaDB: no such table, unknown column.
_SQLSTATES = frozenset({"42P01", "42703"})
_MYSQL_CODES = frozenset({1146, 1054})
_SQLITE = re.compile("no such table|no such column|has no column named")
_WORK = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
_OURS = re.compile("geneva_(workflows|step_executions|signals|webhook_deliveries)")


def listen(engine: Engine) -> None:
    """Raise :class:`MigrationMissing` for such errors on this engine; a second call changes nothing."""
    if not event.contains(engine, "handle_error", _on_error):
        event.listen(engine, "handle_error", _on_error)


def _on_error(context: ExceptionContext) -> None:
    # Not a DESCRIBE or the like: by its error SQLAlchemy finds out whether a table is there.
    if context.statement is None or not _WORK.match(context.statement):
        return
    if not _lacks_something(context.original_exception):
        return
    first_line = str(context.original_exception).splitlines()[0]
    ours = _OURS.search(first_line) or _OURS.search(context.statement)
    if ours is not None:
        missing = MigrationMissing(f"what this operation needs of '{ours[0]}' ({first_line})")
        raise missing from context.sqlalchemy_exception


def _lacks_something(error: Any) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return _SQLITE.search(str(error)) is not None
    # Newer PyMySQL has a sqlstate, too, but the codes are finer.
    arguments: Sequence[Any] = getattr(error, "args", ())
    return getattr(error, "sqlstate", None) in _SQLSTATES or (bool(arguments) and arguments[0] in _MYSQL_CODES)
