"""The hero of a workflow: how a record is named in the row, and found again."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, bindparam, inspect, literal_column, select
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import InstanceState, Mapper, Session

from flask_geneva.errors import GenevaError, ReferencedRecordMissing
from flask_geneva.records.base import models_known_to
from flask_geneva.records.references import import_class, reference_to

Reference = tuple[str, str]

_READERS: dict[type, Any] = {
    int: int,
    str: str,
    UUID: UUID,
    Decimal: Decimal,
    bytes: bytes.fromhex,
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
}


def reference(hero: object, session: Session) -> Reference:
    """Name a record as (type, id), both text; a composite key is a JSON list. The record must have its key already.

    The type is the class's name where the application knows one model of that name, else ``module:Class``. Of an
    inheritance tree it is the topmost class, so that a record has one name however it was loaded. One that was only
    added to the session is flushed, as by any query.
    """
    state = _state_of(hero)
    if state.pending and hero in session:
        session.flush()
    if not state.identity:
        raise GenevaError(f"Cannot use {hero!r} as a hero: it is not stored yet. Add it to db.session and flush first.")
    mapper = state.mapper.base_mapper
    parts = [_write(part) for part in state.identity]
    return _type_name(mapper.class_, session), parts[0] if len(parts) == 1 else json.dumps(parts)


def reference_to_stay(hero: object, session: Session) -> Reference:
    """Name a record likewise; one whose row is gone, or goes with this transaction, is refused."""
    state = _state_of(hero)
    if state.deleted or state.was_deleted:
        raise GenevaError(f"Cannot use {hero!r} as a hero: it is deleted. Create the workflow for a record that stays.")
    return reference(hero, session)


def exists(session: Session, hero_type: str, hero_id: str) -> bool:
    """Whether the record is there, as the database says at this moment; nothing is loaded.

    :raises ReferencedRecordMissing: when no model of that name is known.
    """
    model, key = _place(session, hero_type, hero_id)
    mapper: Mapper[Any] = inspect(model)
    parts = key if isinstance(key, tuple) else (key,)
    parameters = {_parameter(number): part for number, part in enumerate(parts)}
    connection = session.connection(bind_arguments={"mapper": mapper})
    return connection.execute(_search(mapper), parameters).first() is not None


def get(session: Session, hero_type: str, hero_id: str) -> Any | None:
    """Return the hero as the session knows it, reading it where it does not; None when the record is gone.

    :raises ReferencedRecordMissing: when no model of that name is known.
    """
    model, key = _place(session, hero_type, hero_id)
    return session.get(model, key)


def _place(session: Session, hero_type: str, hero_id: str) -> tuple[type, Any]:
    model = _find_class(session, hero_type)
    if model is None:
        raise ReferencedRecordMissing(
            f"Cannot load the hero {hero_type} {hero_id}: no model named '{hero_type}' is known. "
            f"Import the module that declares it in the application factory, or declare it again."
        )
    return model, _read_key(inspect(model), hero_id)


# Made once for each model: every step asks, and to make the statement costs more than to send it.
@lru_cache(maxsize=256)
def _search(mapper: Mapper[Any]) -> Select[Any]:
    where = [
        column == bindparam(_parameter(number), type_=column.type) for number, column in enumerate(mapper.primary_key)
    ]
    return select(literal_column("1")).select_from(mapper.local_table).where(*where)


def _parameter(number: int) -> str:
    return f"key_{number}"


def _state_of(hero: object) -> InstanceState[Any]:
    try:
        state = inspect(hero)
    except NoInspectionAvailable:
        state = None
    if not isinstance(state, InstanceState):
        raise GenevaError(f"Cannot use {hero!r} as a hero: it is not a record. Pass an object of a mapped model class.")
    return state


def _type_name(cls: type, session: Session) -> str:
    find_model = models_known_to(session)
    if find_model is not None and find_model(cls.__name__) is cls:
        return cls.__name__
    return reference_to(cls)


def _find_class(session: Session, hero_type: str) -> type | None:
    find_model = models_known_to(session)
    found = find_model(hero_type) if find_model is not None else None
    if found is not None or ":" not in hero_type:
        return found
    return import_class(hero_type)


def _write(part: object) -> str:
    if isinstance(part, bytes):
        return part.hex()
    return part.isoformat() if isinstance(part, date) else str(part)


def _read_key(mapper: Mapper[Any], hero_id: str) -> Any:
    columns = mapper.primary_key
    if len(columns) == 1:
        return _read(columns[0], hero_id)
    return tuple(_read(column, part) for column, part in zip(columns, json.loads(hero_id), strict=True))


def _read(column: ColumnElement[Any], text: str) -> Any:
    try:
        python_type = column.type.python_type
    except NotImplementedError:
        return text
    return _READERS.get(python_type, str)(text)
