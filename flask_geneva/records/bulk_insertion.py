"""Many rows in one statement, where the database has arrays: PostgreSQL.

What all rows have in common is said once, and what they differ in is an array for each column. With a parameter for
each value of each row the driver would read the statement for longer than the database takes to carry it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import ARRAY, Column, Connection, String, Table, Text, bindparam, column, func, insert, select
from sqlalchemy.sql.dml import ReturningInsert

ROWS_OF_A_STATEMENT = 10_000


def can_insert_in_bulk(connection: Connection) -> bool:
    """Whether the database takes an array for the values of a column."""
    return connection.dialect.name == "postgresql"


def insert_in_bulk(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> Iterator[int]:
    """Insert rows that have values for the same columns; return their keys in the order of the rows."""
    for start in range(0, len(rows), ROWS_OF_A_STATEMENT):
        yield from _insert(connection, table, rows[start : start + ROWS_OF_A_STATEMENT])


def _insert(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> list[int]:
    keys = tuple(rows[0])
    # Something has to say how many there are.
    varying = tuple(key for key in keys if _varies(table.c[key], rows)) or keys[:1]
    parameters = {key: [row[key] for row in rows] if key in varying else rows[0][key] for key in keys}
    # The keys are given away in the order that is asked for, but need not come back in it.
    return sorted(connection.execute(_statement(table, keys, varying), parameters).scalars())


def _varies(column: Column[Any], rows: Sequence[dict[str, Any]]) -> bool:
    first, are_alike = rows[0][column.key], column.type.compare_values
    return not all(row[column.key] is first or are_alike(row[column.key], first) for row in rows)


# Made once for each shape: to make one costs more than to send it.
@lru_cache(maxsize=64)
def _statement(table: Table, keys: tuple[str, ...], varying: tuple[str, ...]) -> ReturningInsert[Any]:
    arrays = [bindparam(key, type_=ARRAY(_type_in_array(table.c[key]), dimensions=1)) for key in varying]
    given = [column(key, _type_in_array(table.c[key])) for key in varying]
    rows = func.unnest(*arrays).table_valued(*given, with_ordinality="position").render_derived()
    values = [rows.c[key] if key in varying else bindparam(key, type_=table.c[key].type) for key in keys]
    in_order = select(*values).order_by(rows.c.position)
    return insert(table).from_select([table.c[key] for key in keys], in_order).returning(table.c.id)


def _type_in_array(column: Column[Any]) -> Any:
    """The type of the array's elements: a cast to an array of VARCHAR(n) would cut longer ones where none is to fit."""
    return Text() if isinstance(column.type, String) else column.type
