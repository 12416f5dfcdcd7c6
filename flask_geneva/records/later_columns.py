"""Columns that came after their table: code may run on a database that has yet to be given them.

Every statement reads all columns, and those of a feature that a workflow does not use must not stop it. So a column
that the database is known to lack reads as in a row that does not use it, NULL or 0, and such a value is not written.
To write another is :class:`MigrationMissing`. :mod:`.missing_schema` finds out what a database lacks.
"""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import Column, Connection, Dialect, Table
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from flask_geneva.errors import MigrationMissing

# Kept with the dialect, of which each engine has its own.
_LACKING = "geneva_lacking_columns"


class LaterColumn(Column[Any]):
    """A column that another revision than its table's has brought; without a value it is NULL, or 0 by its default."""

    inherit_cache = True


@compiles(LaterColumn)
def _render(column: LaterColumn, compiler: SQLCompiler, **options: Any) -> str:
    # In any case, since the compiler notes by it how the result is to be read.
    rendered = compiler.visit_column(column, **options)
    if not _is_lacking(compiler.dialect, column):
        return rendered
    # Not a bare number, which ORDER BY and GROUP BY would take for the place of a column.
    value = "NULL" if column.nullable else "(0 + 0)"
    if compiler.dialect.name == "postgresql":
        # It takes a bare NULL for a text.
        value = f"CAST({value} AS {compiler.dialect.type_compiler_instance.process(column.type)})"
    if options.get("within_columns_clause") and not options.get("within_label_clause"):
        # By its name it is read from a subquery.
        return f"{value} AS {compiler.preparer.format_column(column)}"
    return value


def later_columns_of(table: Table) -> list[str]:
    """Name the columns that may be lacking."""
    return [column.name for column in table.columns if isinstance(column, LaterColumn)]


def known_lacking(dialect: Dialect) -> frozenset[str] | None:
    """Return the columns that the database lacks, as ``table.column``; None where nobody has looked."""
    return cast("frozenset[str] | None", getattr(dialect, _LACKING, None))


def note_lacking(dialect: Dialect, lacking: frozenset[str] | None) -> None:
    """Keep what was found out."""
    setattr(dialect, _LACKING, lacking)


def lacks(connection: Connection, column: Column[Any]) -> bool:
    """Whether the database is known to lack the column."""
    return _is_lacking(connection.dialect, column)


def refuse_lacking(connection: Connection, *columns: Column[Any]) -> None:
    """Do nothing where the database has all of the columns, as far as is known.

    :raises MigrationMissing: it names those that are lacking.
    """
    lacking = [str(column) for column in columns if lacks(connection, column)]
    if lacking:
        raise MigrationMissing(", ".join(f"the column '{each}'" for each in lacking))


def storable(connection: Connection, table: Table, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values without those of columns that the database lacks.

    :raises MigrationMissing: one of these would be lost, since it is not what the column reads as.
    """
    if not known_lacking(connection.dialect):
        return values
    lacking = {key for key in values if lacks(connection, table.c[key])}
    refuse_lacking(connection, *(table.c[key] for key in values if key in lacking and values[key]))
    return {key: value for key, value in values.items() if key not in lacking}


def _is_lacking(dialect: Dialect, column: Column[Any]) -> bool:
    lacking = known_lacking(dialect) or frozenset()
    # The column of an alias is one of its own, and goes back to the table's.
    return bool(lacking) and any(str(each) in lacking for each in column.base_columns)
