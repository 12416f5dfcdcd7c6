"""Enum members and database records inside stored values: how they are named, and found again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, Flag
from importlib import import_module
from typing import Any, TypeAlias

from sqlalchemy import inspect
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import InstanceState, Mapper, Session, registry, scoped_session

from flask_geneva.errors import ReferencedRecordMissing
from flask_geneva.records.scalar_values import Structure, Unstorable

FindModel: TypeAlias = Callable[[str], type | None]
AnySession: TypeAlias = Session | scoped_session[Any]


def reference_to(cls: type) -> str:
    """Name a class so that it can be found again: ``module:qualified name``."""
    return f"{cls.__module__}:{cls.__qualname__}"


def models_in(registries: Iterable[registry]) -> FindModel:
    """Make a search among mapped classes: by full reference, else by a class name that only one of them has.

    It finds models that were declared inside a function or moved to another module.
    """
    known = tuple(registries)

    def find_model(reference: str) -> type | None:
        models = [mapper.class_ for each in known for mapper in each.mappers]
        same = [model for model in models if reference_to(model) == reference]
        if not same:
            same = [model for model in models if model.__name__ == reference.rpartition(":")[2].rpartition(".")[2]]
        return same[0] if len(same) == 1 else None

    return find_model


def import_class(reference: str) -> type | None:
    """Import the class that a reference names, or answer None where there is none."""
    module_name, _, path = reference.partition(":")
    if not module_name:
        return None
    try:
        found: object = import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) else None


def write_enum(member: Enum) -> Structure:
    """Name a member by its class and name; a combination of flags by its value."""
    reference = reference_to(type(member))
    if import_class(reference) is not type(member):
        raise Unstorable(f"the class '{reference}' cannot be imported again; declare it at the top of a module")
    if type(member).__members__.get(str(member.name)) is member:
        return {"$enum": [reference, member.name]}
    return {"$flag": [reference, member.value]}


def read_enum(stored: list[str]) -> Enum:
    """Find the member again, by its name."""
    reference, name = stored
    members = _enum_class(reference, Enum).__members__
    if name not in members:
        raise ReferencedRecordMissing(
            f"Cannot read a stored value: {reference} has no member '{name}' any more. Declare the member again."
        )
    return members[name]


def read_flag(stored: list[Any]) -> Enum:
    """Combine the flags again."""
    reference, value = stored
    return _enum_class(reference, Flag)(value)


def _enum_class(reference: str, kind: type[Enum]) -> type[Enum]:
    cls = import_class(reference)
    if cls is None or not issubclass(cls, kind):
        raise ReferencedRecordMissing(
            f"Cannot read a stored value: there is no {kind.__name__} class '{reference}' any more. "
            f"Declare it again, or leave its name in the old module."
        )
    return cls


def record_state(value: object) -> InstanceState[Any] | None:
    """Answer SQLAlchemy's state of a mapped instance, or None for any other value."""
    try:
        state = inspect(value)
    except NoInspectionAvailable:
        return None
    return state if isinstance(state, InstanceState) else None


def record_key(state: InstanceState[Any]) -> tuple[str, tuple[Any, ...]]:
    """Answer the class and the primary key by which a stored record is loaded again.

    The class is the one that keys the identity map (the parent of an inheritance tree), so that a record may
    change its subclass meanwhile.
    """
    name = state.class_.__name__
    if state.deleted or state.was_deleted:
        raise Unstorable(f"this {name} is deleted; pass what you need of it as plain values")
    if state.key is None:
        raise Unstorable(f"this {name} has no primary key yet; add it to the session and call flush() first")
    loaded_as = state.key[0] if state.mapper.polymorphic_on is not None else state.class_
    return reference_to(loaded_as), tuple(state.key[1])


def load_record(
    reference: str, key: tuple[Any, ...], session: AnySession | None, find_model: FindModel | None
) -> object:
    """Load a stored record; one that is deleted, or whose class is gone, raises ``ReferencedRecordMissing``."""
    shown = ", ".join(map(repr, key))
    if session is None:
        raise ReferencedRecordMissing(
            f"Cannot read a stored value: it refers to the record {reference} {shown}, and there is no session to load "
            f"it from. Read it while the object that holds it is in a session."
        )
    record = session.get(_model(reference, find_model), key)
    if record is None:
        raise ReferencedRecordMissing(
            f"Cannot read a stored value: it refers to the record {reference} {shown}, which is deleted. "
            f"Restore the record, or skip or cancel what needs it."
        )
    return record


def _model(reference: str, find_model: FindModel | None) -> type:
    model = (find_model(reference) if find_model else None) or import_class(reference)
    if model is None or not isinstance(inspect(model, raiseerr=False), Mapper):
        raise ReferencedRecordMissing(
            f"Cannot read a stored value: it refers to a record of the model '{reference}', which is not declared in "
            f"this process. Import its module in the application factory, or leave its name in the old module."
        )
    return model
