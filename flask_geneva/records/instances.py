"""Mapped objects made of rows that were read already, without asking the database again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast

from sqlalchemy import Table, inspect
from sqlalchemy.orm import Mapper, Session, make_transient_to_detached
from sqlalchemy.orm.attributes import set_committed_value
from sqlalchemy.orm.util import identity_key

from flask_geneva.records.saving import Row

Mapped = TypeVar("Mapped")


def instance_of(session: Session, cls: type[Mapped], row: Row) -> Mapped:
    """Return the session's object for the row, with the row's values.

    An object that the session holds already is brought up to date: pending changes to it must have been flushed.
    """
    known = session.identity_map.get(identity_key(cls, row.__dict__["id"]))
    if known is not None:
        refresh_from(known, row)
        return known
    instance = _made_of(cls, row)
    session.add(instance)
    return instance


def free_instance_of(session: Session, cls: type[Mapped], row: Row) -> Mapped:
    """Return an object of the row beside the one that the session may hold; it reads references through the session."""
    instance = _made_of(cls, row)
    cast("Any", instance)._reading_session = session
    return instance


def _made_of(cls: type[Mapped], row: Row) -> Mapped:
    instance = cast("Mapped", inspect(cls).class_manager.new_instance())
    cast("Any", instance).__dict__.update(_attributes(inspect(cls), row))
    make_transient_to_detached(cast("Any", instance))
    return instance


def show(session: Session, cls: type, row: Row) -> None:
    """Bring the session's object of the row, where it holds one, up to date."""
    known = session.identity_map.get(identity_key(cls, row.__dict__["id"]))
    if known is not None:
        refresh_from(known, row)


def refresh_from(instance: object, row: Row) -> None:
    """Give an object the values of the row, as if it had been loaded."""
    for key, value in _attributes(inspect(type(instance)), row).items():
        set_committed_value(instance, key, value)


def _attributes(mapper: Mapper[Any], row: Row) -> dict[str, Any]:
    names = _names(mapper, row.table)
    return {names[key]: value for key, value in row.values().items()}


# A class has one for as long as it is mapped.
@lru_cache(maxsize=256)
def _names(mapper: Mapper[Any], table: Table) -> Mapping[str, str]:
    """How the mapped class calls the columns of the table."""
    return {key: mapper.get_property_by_column(column).key for key, column in table.c.items()}
