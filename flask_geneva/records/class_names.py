"""By which class a row is loaded: the name that the row has, and the former names of a class that was renamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import String
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import Mapper
from sqlalchemy.sql.operators import OperatorType, in_op
from sqlalchemy.types import TypeDecorator


def mapper_called(base: Mapper[Any], name: str) -> Mapper[Any] | None:
    """Return the mapper of the class that has this name, or had it; None when no loaded module declares one."""
    found = base.polymorphic_map.get(name)
    if found is not None:
        return found
    return next((each for each in base.self_and_descendants if name in each.class_.definition.former_names), None)


def stored_names(mapper: Mapper[Any]) -> list[str]:
    """Return the names that rows of the class and of its subclasses have, former ones included."""
    return [name for each in mapper.self_and_descendants for name in each.class_.definition.stored_names]


class _Comparator(TypeDecorator.Comparator[str], String.Comparator[str]):
    """``select(Renamed)`` asks for its rows with ``IN`` and the names of the classes."""

    def operate(self, op: OperatorType, *other: Any, **options: Any) -> Any:
        if op is in_op:
            discriminator: Any = self.expr.type
            known = discriminator.base().polymorphic_map
            other = ([stored for name in other[0] for stored in known[name].class_.definition.stored_names],)
        return super().operate(op, *other, **options)


class Discriminator(TypeDecorator[str]):
    """The name of a row's class, as the mapper is to see it.

    A former name reads as the present one, and a name that no loaded class has as that of the base class, so that such
    rows still load. A search for the present name finds the former ones, too.
    """

    impl = String
    cache_ok = True
    comparator_factory: Any = _Comparator

    def __init__(self, base: Callable[[], Mapper[Any]]) -> None:
        super().__init__()
        self.base = base

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        base = self.base()
        if value is None or value in base.polymorphic_map:
            return value
        return str((mapper_called(base, value) or base).polymorphic_identity)
