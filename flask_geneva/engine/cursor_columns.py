"""The columns that a query is walked by: which they are, in which direction, and why others would skip rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, Float, Index, Select, Table, UniqueConstraint, inspect
from sqlalchemy.sql import operators

from flask_geneva.errors import StepConfigurationError

CursorColumns = Any


@dataclass(frozen=True)
class Place:
    """A column that the query is walked by, and the direction."""

    ordering: Any
    column: Any
    descends: bool

    def behind(self, value: Any) -> ColumnElement[bool]:
        """The rows that come after the value."""
        return self.column < value if self.descends else self.column > value  # type: ignore[no-any-return]

    def not_before(self, value: Any) -> ColumnElement[bool]:
        """Those rows, and the ones that have the value."""
        return self.column <= value if self.descends else self.column >= value  # type: ignore[no-any-return]

    @property
    def stored(self) -> Column[Any] | None:
        """The column of a table; None for any other expression."""
        base = list(getattr(_expression(self.column), "base_columns", ()))
        return base[0] if len(base) == 1 and isinstance(base[0], Column) else None

    @property
    def key(self) -> tuple[Any, bool]:
        """By which two mentions of a column can be compared."""
        return self.stored, self.descends


def places_of(select: Select[Any], cursor: CursorColumns) -> list[Place]:
    """Return the columns of ``cursor``, else of the query's own ORDER BY, else of the primary key.

    :raises StepConfigurationError: for columns that may be equal or NULL, and for those of anything but the model.
    """
    entity = _entity_of(select)
    places = _chosen(select, entity, cursor)
    names = ", ".join(str(place.column) for place in places)
    for place in places:
        _refuse_unwalkable(entity, place, names)
    if not any(key <= {place.stored for place in places} for key in _unique_keys(entity.mapper)):
        raise StepConfigurationError(
            f"Cannot iterate by {names}: several rows may have equal values there, and some of them would be skipped. "
            f"Add the primary key: cursor=({names}, {_named(_primary_key(entity))})."
        )
    return places


def _entity_of(select: Select[Any]) -> Any:
    """The inspected model, or alias of a model, that the query selects."""
    described = select.column_descriptions
    if len(described) != 1 or described[0]["entity"] is None or described[0]["expr"] is not described[0]["entity"]:
        raise StepConfigurationError("Records are iterated over a select() of exactly one model, like select(Order).")
    return inspect(described[0]["entity"])


def _chosen(select: Any, entity: Any, cursor: CursorColumns) -> list[Place]:
    own = [_place(each) for each in select._order_by_clauses]
    if cursor is None:
        return own or [_place(each) for each in _primary_key(entity)]
    named = [_place(each) for each in (cursor if isinstance(cursor, tuple | list) else [cursor])]
    if not named:
        raise StepConfigurationError("Cannot iterate by cursor=(): name a column, or leave it out for the primary key.")
    if [place.key for place in own] != [place.key for place in named[: len(own)]]:
        raise StepConfigurationError(
            f"Cannot iterate by {_named(place.ordering for place in named)}: the select() is ordered by "
            f"{_named(place.ordering for place in own)}. Leave order_by() or cursor= out, or let them be the same."
        )
    return named


def _place(ordering: Any) -> Place:
    modifier = getattr(ordering, "modifier", None)
    if modifier in (operators.desc_op, operators.asc_op):
        return Place(ordering, ordering.element, descends=modifier is operators.desc_op)
    return Place(ordering, ordering, descends=False)


def _refuse_unwalkable(entity: Any, place: Place, names: str) -> None:
    column, model = place.stored, entity.mapper.class_.__name__
    if column is None or not _is_of(entity, place):
        raise StepConfigurationError(
            f"Cannot iterate by {names}: {place.column} is no column of the {model} that is selected. By an "
            f"expression, or through a join, one record may have several values or none. Use columns of that {model}."
        )
    if column.nullable:
        raise StepConfigurationError(
            f"Cannot iterate by {names}: {column} may be NULL, and such rows would be skipped. "
            f"Use the primary key, or columns that are NOT NULL."
        )
    if isinstance(column.type, Float):
        raise StepConfigurationError(
            f"Cannot iterate by {names}: {column} is a floating-point number, which does not compare equal to itself "
            f"everywhere, so that rows would be skipped. Use the primary key, or columns with exact values."
        )


def _is_of(entity: Any, place: Place) -> bool:
    """Whether the column is read through the model, or the very alias, that is selected."""
    is_there: bool = entity.selectable.c.contains_column(_expression(place.column))
    return is_there and place.stored is not None and place.stored.table in entity.mapper.tables


def _primary_key(entity: Any) -> list[Any]:
    mapper = entity.mapper
    return [getattr(entity.entity, mapper.get_property_by_column(column).key) for column in mapper.primary_key]


def _unique_keys(mapper: Any) -> Iterator[set[Any]]:
    """The sets of columns that are unique together; of a model in several tables each has a row for each record."""
    yield set(mapper.primary_key)
    for table in mapper.tables:
        if isinstance(table, Table):
            yield set(table.primary_key.columns)
            yield from (set(each.columns) for each in table.constraints if isinstance(each, UniqueConstraint))
            yield from (set(index.columns) for index in table.indexes if _holds_for_all_rows(index))
            yield from ({column} for column in table.columns if column.unique)


def _holds_for_all_rows(index: Index) -> bool:
    """Whether a unique index is neither partial nor on expressions."""
    conditions = (options.get("where") for options in index.dialect_options.values())
    on_columns = index.expressions and all(isinstance(each, Column) for each in index.expressions)
    return bool(index.unique and on_columns and all(condition is None for condition in conditions))


def _expression(column: Any) -> Any:
    """The SQL expression of a mapped attribute; any other expression as it is."""
    return getattr(column, "expression", column)


def _named(columns: Sequence[Any] | Iterator[Any]) -> str:
    return ", ".join(str(column) for column in columns)
