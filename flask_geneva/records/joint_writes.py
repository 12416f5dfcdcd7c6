"""Several rows in one statement, where the database can do that: PostgreSQL, in common table expressions.

A step's end, the next step's row and the workflow are three rows and would be three round trips, each as long as the
work that the database does for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import CTE, Column, Connection, Select, Table, bindparam, insert, select, update

from flask_geneva.records.dialects import insert_with_conflicts


class Write(NamedTuple):
    """An insert (``identity`` is None) or an update of the row that has this key and is still in this state.

    An insert may have the key of the row before it in the column ``link``; it comes to pass only if that one did. And
    it may not mind where a unique index refuses it.
    """

    table: Table
    values: dict[str, Any]
    identity: int | None = None
    state: Any = None
    link: str | None = None
    unless_taken: bool = False


class _Shape(NamedTuple):
    """What a statement depends on."""

    table: Table
    is_insert: bool
    keys: tuple[str, ...]
    link: str | None
    unless_taken: bool


def can_join(connection: Connection) -> bool:
    """Whether the database writes several rows of several tables in one statement."""
    return connection.dialect.name == "postgresql"


def write_jointly(connection: Connection, writes: Sequence[Write]) -> Sequence[int | None]:
    """Do all writes at once; return the key of each row, None for one that did not come to pass.

    They come to pass in their order: an insert finds what a unique index is to see of the update before it.
    """
    shapes = tuple(
        _Shape(each.table, each.identity is None, tuple(each.values), each.link, each.unless_taken) for each in writes
    )
    parameters: dict[str, Any] = {}
    for number, each in enumerate(writes):
        parameters |= {_name(number, key): value for key, value in each.values.items()}
        if each.identity is not None:
            parameters |= {_name(number, "old_id"): each.identity, _name(number, "old_state"): each.state}
    return tuple(connection.execute(_statement(shapes), parameters).one())


# Made once for each shape, of which a step has a handful: to make one costs more than to send it.
@lru_cache(maxsize=256)
def _statement(shapes: tuple[_Shape, ...]) -> Select[Any]:
    parts: list[CTE] = []
    for number, shape in enumerate(shapes):
        make = _insertion if shape.is_insert else _update
        parts.append(make(number, shape, parts[-1] if parts else None))
    return select(*(select(part.c.id).scalar_subquery() for part in parts))


def _insertion(number: int, shape: _Shape, before: CTE | None) -> CTE:
    columns = [shape.table.c[key] for key in shape.keys]
    values = select(*(_parameter(number, column) for column in columns))
    if before is not None:
        # The order in which parts come to pass is that in which they read from one another, and no other.
        values = values.select_from(before)
        if shape.link is not None:
            columns.append(shape.table.c[shape.link])
            values = values.add_columns(before.c.id)
    make: Any = insert_with_conflicts("postgresql") if shape.unless_taken else insert
    statement = make(shape.table).from_select(columns, values)
    if shape.unless_taken:
        statement = statement.on_conflict_do_nothing()
    part: CTE = statement.returning(shape.table.c.id).cte(f"write_{number}")
    return part


def _update(number: int, shape: _Shape, before: CTE | None) -> CTE:
    columns = shape.table.c
    is_as_before = (
        columns.id == bindparam(_name(number, "old_id"), type_=columns.id.type),
        columns.state == bindparam(_name(number, "old_state"), type_=columns.state.type),
    )
    values = {columns[key]: _parameter(number, columns[key]) for key in shape.keys}
    return update(shape.table).where(*is_as_before).values(values).returning(columns.id).cte(f"write_{number}")


def _parameter(number: int, column: Column[Any]) -> Any:
    return bindparam(_name(number, column.key), type_=column.type)


def _name(number: int, key: str) -> str:
    return f"{key}_{number}"
