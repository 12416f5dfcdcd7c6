"""Pages of a query by keyset: each begins behind the last row of the one before, so none is missed or seen twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Select, and_, or_
from sqlalchemy.orm import Session

from flask_geneva.engine.cursor_columns import CursorColumns, Place, places_of
from flask_geneva.errors import InvalidStateError, StepConfigurationError

Item = TypeVar("Item")


class Keyset(Generic[Item]):
    """A query of one entity and the unique columns that it is walked by: those named, else its own ORDER BY.

    :raises StepConfigurationError: for columns that may be equal or NULL, since rows would be skipped.
    """

    def __init__(self, select: Select[Item], cursor: CursorColumns = None) -> None:
        if not isinstance(select, Select):
            raise StepConfigurationError(f"Records are iterated over a select(), not {select!r}.")
        _refuse_cut(select)
        self._places = places_of(select, cursor)
        self._composite = isinstance(cursor, tuple | list) or (cursor is None and len(self._places) > 1)
        orderings, columns = [place.ordering for place in self._places], [place.column for place in self._places]
        self._select = select.order_by(None).order_by(*orderings).add_columns(*columns)

    def pages(self, session: Session, after: Any, size: int) -> Iterator[list[tuple[Item, Any]]]:
        """Yield non-empty pages of (record, cursor), one query each, so that memory does not grow with the table.

        Only an empty page is the last: a short one may be what is left of a full one whose joins repeated records.

        :raises InvalidStateError: when the cursor to go on from is not one of these columns.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise StepConfigurationError(f"batch_size must be a positive integer, not {size!r}.")
        while page := self._page(session, after, size):
            yield page
            after = page[-1][1]

    def _page(self, session: Session, after: Any, size: int) -> list[tuple[Item, Any]]:
        statement = self._select.limit(size)
        if after is not None:
            statement = statement.where(_behind(self._places, self._values_of(after)))
        return [(row[0], self._key(row)) for row in session.execute(statement).unique()]

    def _key(self, row: Sequence[Any]) -> Any:
        key = tuple(row[len(row) - len(self._places) :])
        return key if self._composite else key[0]

    def _values_of(self, cursor: Any) -> Sequence[Any]:
        is_of_several = isinstance(cursor, tuple | list)
        if is_of_several is self._composite and len(self._places) == (len(cursor) if is_of_several else 1):
            return cursor if is_of_several else (cursor,)
        names = ", ".join(str(place.column) for place in self._places)
        raise InvalidStateError(
            f"Cannot go on from the cursor {cursor!r}: it is no value of {names}, by which the query is walked. Walk "
            f"it as when the step was begun, or begin anew with reattempt(rewind=True)."
        )


def _refuse_cut(select: Any) -> None:
    if any(each is not None for each in (select._limit_clause, select._offset_clause, select._fetch_clause)):
        raise StepConfigurationError(
            "Cannot iterate over a select() with LIMIT, OFFSET or FETCH: which rows these are changes while the step "
            "goes on. Take it out; max_iterations and max_runtime limit an execution."
        )


def _behind(places: Sequence[Place], key: Sequence[Any]) -> ColumnElement[bool]:
    """(a, b) > (x, y), written out, since not every database uses an index for a comparison of rows.

    That a is not below x follows from it; said as well, it tells every database where in an index to begin.
    """
    alternatives = []
    for index, place in enumerate(places):
        equal = [earlier.column == value for earlier, value in zip(places[:index], key[:index], strict=True)]
        alternatives.append(and_(*equal, place.behind(key[index])))
    return and_(places[0].not_before(key[0]), or_(*alternatives)) if len(places) > 1 else alternatives[0]
