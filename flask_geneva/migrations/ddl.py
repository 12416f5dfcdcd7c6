"""What the installed revisions are made of, in the words of each database.

Revisions in applications import this module for ever: add to it, and change nothing of what is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

MYSQL_DIALECTS = ("mysql", "mariadb")

# Strings compare by case, accents and trailing spaces on every database. On MySQL and MariaDB that takes a binary
# collation that does not pad; it has another name on each, and each executes the comment that is meant for it.
EXACT_COLLATION = "/*!80017 utf8mb4_0900_bin */ /*M!100202 utf8mb4_nopad_bin */"

TABLE_OPTIONS: dict[str, Any] = {
    # Without it SQLite gives the number of a deleted row away again.
    "sqlite_autoincrement": True,
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": EXACT_COLLATION,
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": EXACT_COLLATION,
}


def key() -> sa.types.TypeEngine[Any]:
    """A bigint; SQLite numbers rows by itself only where the key is called INTEGER."""
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def moment() -> sa.types.TypeEngine[Any]:
    """A moment with microseconds, kept in UTC."""
    return sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), *MYSQL_DIALECTS)


def exact_string(length: int = 255) -> sa.types.TypeEngine[Any]:
    """A name or a key; that it compares exactly is the work of the table's collation, see ``TABLE_OPTIONS``."""
    return sa.String(length)


def long_text() -> sa.types.TypeEngine[Any]:
    """A text that may be longer than the 64 kB of MySQL's TEXT."""
    return sa.Text().with_variant(mysql.MEDIUMTEXT(), *MYSQL_DIALECTS)


def json_document() -> sa.types.TypeEngine[Any]:
    """JSON: jsonb on PostgreSQL, a long text with a check of its syntax on MariaDB."""
    return sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def slot(name: str, *, mysql_where: str) -> list[sa.Column[Any]]:
    """The generated column that makes up for a partial index: 1 within the condition, NULL outside.

    None on databases that have partial indexes.
    """
    if not _on_mysql():
        return []
    return [sa.Column(name, sa.SmallInteger(), sa.Computed(f"CASE WHEN {mysql_where} THEN 1 END", persisted=True))]


def belongs_to_workflow(name: str) -> list[sa.ForeignKeyConstraint]:
    """The foreign key of a table whose rows go with their workflow; none on MySQL and MariaDB.

    There an insert would share-lock the workflow's row, and steps that signal each other's workflows would deadlock.
    """
    if _on_mysql():
        return []
    return [sa.ForeignKeyConstraint(["workflow_id"], ["geneva_workflows.id"], name=op.f(name), ondelete="CASCADE")]


def create_unique_index_where(name: str, table: str, columns: list[str], *, where: str, slot: str) -> None:
    """Allow one row with these values within the condition: a partial index, or a full one that ends with the slot."""
    if _on_mysql():
        op.create_index(op.f(name), table, [*columns, slot], unique=True)
        return
    condition = sa.text(where)
    op.create_index(op.f(name), table, columns, unique=True, postgresql_where=condition, sqlite_where=condition)


def has_table(name: str) -> bool:
    """Tell whether the table is there already: made by ``create_all``, or by a revision that was generated.

    Always false where the revision only writes a script (``--sql``).
    """
    if op.get_context().as_sql:
        return False
    return sa.inspect(op.get_bind()).has_table(name)


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add the column where it is not there yet; no table is copied for it, on SQLite either."""
    if op.get_context().as_sql or column.name not in _names(_inspector().get_columns(table)):
        op.add_column(table, column)


def create_index(name: str, table: str, columns: list[str]) -> None:
    """Create the index where it is not there yet."""
    if op.get_context().as_sql or name not in _names(_inspector().get_indexes(table)):
        op.create_index(op.f(name), table, columns)


def _inspector() -> sa.Inspector:
    return sa.inspect(op.get_bind())


def _names(found: Iterable[Any]) -> set[str]:
    return {each["name"] for each in found}


def _on_mysql() -> bool:
    return op.get_context().dialect.name in MYSQL_DIALECTS
