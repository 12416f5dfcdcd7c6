"""Pages of a query by keyset: each begins behind the last row of the one before, so none is missed or seen twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, ColumnElement, Select, UniqueConstraint, and_, inspect, or_
from sqlalchemy.orm import Mapper, Session
from sqlalchemy.sql import operators

from flask_geneva.errors import StepConfigurationError

Item = TypeVar("Item")
CursorColumns = Any


@dataclass(frozen=True)
class _Place:
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


class Keyset(Generic[Item]):
    """A query of one entity and the unique columns that it is walked by: those named, else its own ORDER BY.

    :raises StepConfigurationError: for columns that may be equal or NULL, since rows would be skipped.
    """

    def __init__(self, select: Select[Item], cursor: CursorColumns = None) -> None:
        if not isinstance(select, Select):
            raise StepConfigurationError(f"Records are iterated over a select(), not {select!r}.")
        mapper = _entity_of(select)
        _refuse_cut(select)
        orderings = _orderings_of(select, mapper, cursor)
        self._composite = isinstance(cursor, tuple | list) or (cursor is None and len(orderings) > 1)
        self._places = [_place(ordering) for ordering in orderings]
        _refuse_ambiguous(mapper, [place.column for place in self._places])
        self._select = select.order_by(None).order_by(*orderings).add_columns(*(p.column for p in self._places))

    def pages(self, session: Session, after: Any, size: int) -> Iterator[list[tuple[Item, Any]]]:
        """Yield non-empty pages of (record, cursor), one query each, so that memory does not grow with the table.

        Only an empty page is the last: a short one may be what is left of a full one whose joins repeated records.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise StepConfigurationError(f"batch_size must be a positive integer, not {size!r}.")
        while page := self._page(session, after, size):
            yield page
            after = page[-1][1]

    def _page(self, session: Session, after: Any, size: int) -> list[tuple[Item, Any]]:
        statement = self._select.limit(size)
        if after is not None:
            statement = statement.where(_behind(self._places, after if self._composite else (after,)))
        return [(row[0], self._key(row)) for row in session.execute(statement).unique()]

    def _key(self, row: Sequence[Any]) -> Any:
        key = tuple(row[len(row) - len(self._places) :])
        return key if self._composite else key[0]


def _entity_of(select: Select[Any]) -> Mapper[Any]:
    entities = [each["entity"] for each in select.column_descriptions]
    if len(entities) != 1 or entities[0] is None or select.column_descriptions[0]["expr"] is not entities[0]:
        raise StepConfigurationError("Records are iterated over a select() of exactly one model, like select(Order).")
    return inspect(entities[0]).mapper  # type: ignore[no-any-return]


def _refuse_cut(select: Any) -> None:
    if any(each is not None for each in (select._limit_clause, select._offset_clause, select._fetch_clause)):
        raise StepConfigurationError(
            "Cannot iterate over a select() with LIMIT, OFFSET or FETCH: which rows these are changes while the step "
            "goes on. Take it out; max_iterations and max_runtime limit an execution."
        )


def _orderings_of(select: Any, mapper: Mapper[Any], cursor: CursorColumns) -> list[Any]:
    own = list(select._order_by_clauses)
    if cursor is None:
        return own or [mapper.get_property_by_column(column).class_attribute for column in mapper.primary_key]
    named = list(cursor) if isinstance(cursor, tuple | list) else [cursor]
    if own and [str(each) for each in own] != [str(_expression(each)) for each in named]:
        raise StepConfigurationError(
            f"Cannot iterate by {_names(named)}: the select() is ordered by {_names(own)}. "
            f"Leave order_by() or cursor= out, or let them be the same."
        )
    return named


def _expression(column: Any) -> Any:
    """The SQL expression of a mapped attribute; any other expression as it is."""
    return getattr(column, "expression", column)


def _names(columns: Sequence[Any]) -> str:
    return ", ".join(str(column) for column in columns)


def _place(ordering: Any) -> _Place:
    modifier = getattr(ordering, "modifier", None)
    if modifier in (operators.desc_op, operators.asc_op):
        return _Place(ordering, ordering.element, descends=modifier is operators.desc_op)
    return _Place(ordering, ordering, descends=False)


def _refuse_ambiguous(mapper: Mapper[Any], columns: Sequence[Any]) -> None:
    named = [_table_column(column) for column in columns]
    names = _names(columns)
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


def _behind(places: Sequence[_Place], key: Sequence[Any]) -> ColumnElement[bool]:
    """(a, b) > (x, y), written out, since not every database uses an index for a comparison of rows.

    That a is not below x follows from it; said as well, it tells every database where in an index to begin.
    """
    alternatives = []
    for index, place in enumerate(places):
        equal = [earlier.column == value for earlier, value in zip(places[:index], key[:index], strict=True)]
        alternatives.append(and_(*equal, place.behind(key[index])))
    return and_(places[0].not_before(key[0]), or_(*alternatives)) if len(places) > 1 else alternatives[0]
