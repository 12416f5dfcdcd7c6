"""The type of the JSON columns: one text on four databases, whatever JSON library the app's engine uses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sqlalchemy import JSON, ColumnElement, Dialect, String, Text, cast, type_coerce
from sqlalchemy.sql.operators import OperatorType
from sqlalchemy.types import TypeDecorator, TypeEngine

from flask_geneva.records.dialects import MYSQL_DIALECTS, jsonb
from flask_geneva.records.values import to_text


class JSONColumn(TypeDecorator[Any]):
    """JSON as :func:`flask_geneva.records.values.encode` makes it: jsonb on PostgreSQL, JSON elsewhere.

    MariaDB's JSON is a long text with a check of its syntax.

    :param none_as_null: what Python's None is stored as: SQL NULL ("there is nothing", True), or JSON ``null``
        ("the value is None", False). SQL NULL reads as None in both.
    """

    impl = JSON
    cache_ok = True

    def __init__(self, *, none_as_null: bool) -> None:
        super().__init__(none_as_null=none_as_null)
        self.none_as_null = none_as_null

    @property
    def should_evaluate_none(self) -> bool:  # type: ignore[override]
        """Tell the ORM that a None that was set is a value, and no column that was left out."""
        return not self.none_as_null

    def ddl_type(self, dialect_name: str) -> TypeEngine[Any]:
        if dialect_name in MYSQL_DIALECTS:
            return JSON()
        # On SQLite, too: what is developed there may run on PostgreSQL.
        variant = jsonb()
        # Alembic would write it into a revision as a bare "Text()", which nothing imports there.
        variant.astext_type = None
        return JSON().with_variant(variant, "postgresql")

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(jsonb(none_as_null=self.none_as_null))
        return dialect.type_descriptor(JSON(none_as_null=self.none_as_null))

    # The serializers that an app gives to its engine (for decimals, or for speed) would change what is stored and
    # read, so the whole way is overridden here and none of the dialect's processors runs.

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], str | None]:
        return self._written

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        quoted = String().literal_processor(dialect)  # type: ignore[no-untyped-call]
        return lambda value: "NULL" if (text := self._written(value)) is None else quoted(text)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return _read

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Read jsonb as text, since the drivers of PostgreSQL parse it before SQLAlchemy sees it."""
        is_jsonb = self.impl_instance.__visit_name__ == "JSONB"
        return type_coerce(cast(column, Text), self) if is_jsonb else column

    def _written(self, value: Any) -> str | None:
        if value is None and self.none_as_null:
            return None
        return to_text(None if value is JSON.NULL else value)

    def compare_values(self, x: Any, y: Any) -> bool:
        """Tell whether two values are stored alike; 1, 1.0 and True are not."""
        try:
            return x is y or self._written(x) == self._written(y)
        except TypeError:  # The ORM also compares with its symbols for "no value".
            return False

    def coerce_compared_value(self, op: OperatorType | None, value: Any) -> TypeEngine[Any]:
        """Let the index of ``column["key"]`` be what it is and not JSON."""
        return self.impl_instance.coerce_compared_value(op, value)


def _read(stored: str | bytes | float | None) -> Any:
    # SQLite keeps the text of a lone number as a number.
    return json.loads(stored) if isinstance(stored, str | bytes) else stored
