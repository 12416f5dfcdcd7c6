"""Pages of a query by keyset: each begins behind the last row of the one before, so none is missed or seen twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, ColumnElement, Select, UniqueConstraint, and_, inspect, or_
from sqlalchemy.orm import Mapper, Session

from flask_geneva.errors import StepConfigurationError

Item = TypeVar("Item")
CursorColumns = Any


class Keyset(Generic[Item]):
    """A query of one entity and the unique columns that it is walked by.

    :raises StepConfigurationError: for columns that may be equal or NULL, since rows would be skipped.
    """

    def __init__(self, select: Select[Item], cursor: CursorColumns = None) -> None:
        if not isinstance(select, Select):
            raise StepConfigurationError(f"Records are iterated over a select(), not {select!r}.")
        mapper = _entity_of(select)
        self._composite = isinstance(cursor, tuple | list) or (cursor is None and len(mapper.primary_key) > 1)
        self._columns = _columns_of(mapper, cursor)
        _refuse_ambiguous(mapper, self._columns)
        self._select = select.order_by(None).order_by(*self._columns).add_columns(*self._columns)

    def pages(self, session: Session, after: Any, size: int) -> Iterator[list[tuple[Item, Any]]]:
        """Yield non-empty pages of (record, cursor), one query each, so that memory does not grow with the table."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise StepConfigurationError(f"batch_size must be a positive integer, not {size!r}.")
        while True:
            statement = self._select.limit(size)
            if after is not None:
                statement = statement.where(_behind(self._columns, after if self._composite else (after,)))
            page = [(row[0], self._key(row)) for row in session.execute(statement).unique()]
            if not page:
                return
            yield page
            if len(page) < size:
                return
            after = page[-1][1]

    def _key(self, row: Sequence[Any]) -> Any:
        key = tuple(row[len(row) - len(self._columns) :])
        return key if self._composite else key[0]


def _entity_of(select: Select[Any]) -> Mapper[Any]:
    entities = [each["entity"] for each in select.column_descriptions]
    if len(entities) != 1 or entities[0] is None or select.column_descriptions[0]["expr"] is not entities[0]:
        raise StepConfigurationError("Records are iterated over a select() of exactly one model, like select(Order).")
    return inspect(entities[0]).mapper  # type: ignore[no-any-return]


def _columns_of(mapper: Mapper[Any], cursor: CursorColumns) -> list[ColumnElement[Any]]:
    if cursor is None:
        return [mapper.get_property_by_column(column).class_attribute for column in mapper.primary_key]
    return list(cursor) if isinstance(cursor, tuple | list) else [cursor]


def _refuse_ambiguous(mapper: Mapper[Any], columns: Sequence[Any]) -> None:
    named = [_table_column(column) for column in columns]
    names = ", ".join(str(column) for column in columns)
    nullable = [column for column in named if column is not None and column.nullable]
    if nullable:
        raise StepConfigurationError(
            f"Cannot iterate by {names}: {nullable[0]} may be NULL, and such rows would be skipped. "
            f"Use the primary key, or columns that are NOT NULL."
        )
    if not any(key <= set(named) for key in _unique_keys(mapper)):
        raise StepConfigurationError(
            f"Cannot iterate by {names}: several rows may have equal values there, and some of them would be skipped. "
            f"Add the primary key: cursor=({names}, {', '.join(str(key) for key in mapper.primary_key)})."
        )


def _table_column(column: Any) -> Column[Any] | None:
    found = getattr(column, "expression", column)
    base = list(getattr(found, "base_columns", ()))
    return base[0] if len(base) == 1 and isinstance(base[0], Column) else None


def _unique_keys(mapper: Mapper[Any]) -> list[set[Any]]:
    table: Any = mapper.local_table
    keys = [set(mapper.primary_key)]
    keys += [set(each.columns) for each in table.constraints if isinstance(each, UniqueConstraint)]
    keys += [set(index.columns) for index in table.indexes if index.unique]
    return keys + [{column} for column in table.columns if column.unique]


def _behind(columns: Sequence[ColumnElement[Any]], key: Sequence[Any]) -> ColumnElement[bool]:
    """(a, b) > (x, y), written out, since not every database uses an index for a comparison of rows."""
    alternatives = []
    for index, column in enumerate(columns):
        equal = [earlier == value for earlier, value in zip(columns[:index], key[:index], strict=True)]
        alternatives.append(and_(*equal, column > key[index]))
    return or_(*alternatives)
