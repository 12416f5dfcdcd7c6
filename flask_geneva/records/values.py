"""Payloads and cursors as JSON: every value comes back equal and of its own type, whatever the database.

JSON's own types stand for themselves, the others are objects with one key that begins with ``$``. A dict that
looks like one of those is written as a list of pairs. The order of a dict's keys is not kept, since jsonb and
MySQL sort them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from flask_geneva.errors import GenevaError, PayloadNotSerializable
from flask_geneva.records.references import (
    AnySession,
    FindModel,
    load_record,
    read_enum,
    read_flag,
    record_key,
    record_state,
    write_enum,
)
from flask_geneva.records.scalar_values import (
    PLAIN_WRITERS,
    SCALAR_FORMS,
    SCALAR_READERS,
    Structure,
    Unstorable,
    is_plain,
)

MAX_DEPTH = 100
# MariaDB's json_valid() refuses 32 levels. What is deeper is stored as JSON text in a string.
DEEPEST_STRUCTURE = 30
# The most levels that one container makes on disk: {"$items": [[key, value]]}.
_LEVELS_EACH = 3

_STORED = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_MEASURED = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def encode(value: object, *, name: str = "payload") -> Structure:
    """Turn a value into JSON that :func:`decode` turns back into an equal value of the same type.

    The result shares nothing with the value, so later changes to it are not stored. An instance of a subclass of
    a builtin type is refused: stored as its parent it would silently come back as another type, and nothing tells
    how to build the subclass again.

    :param name: what the value is called in an error, which names the place inside it: ``payload['items'][2]``.
    :raises PayloadNotSerializable: the value, or a part of it, is of another type.
    """
    if type(value) is float:
        # SQLite would make an integer of a lone 1.0 in a JSON column.
        return {"$float": repr(value)}
    encoder = _Encoder(name)
    structure = encoder.structure_of(value)
    if encoder.deepest * _LEVELS_EACH > DEEPEST_STRUCTURE and _depth(structure) > DEEPEST_STRUCTURE:
        return {"$json": to_text(structure)}
    return structure


def decode(structure: Structure, session: AnySession | None, find_model: FindModel | None = None) -> Any:
    """Turn stored JSON back into the value; records are loaded with ``session.get``.

    :param session: None where there is none to load records from; the other values do not need it.
    :param find_model: asked for the class of a record before its module is imported;
        see :func:`flask_geneva.records.references.models_in`.
    :raises ReferencedRecordMissing: a record, a class or an enum member is gone.
    """
    return _Decoder(session, find_model).value_of(structure)


def to_text(structure: Structure) -> str:
    """Write the JSON text that is stored: compact, ASCII only, whatever the serializer of the app's engine."""
    return _STORED.encode(structure)


def encoded_size(structure: Structure) -> int:
    """Answer how many bytes the JSON has in UTF-8."""
    return len(_MEASURED.encode(structure).encode())


def check_size(structure: Structure, limit: int | None, error_class: type[GenevaError], key: str, what: str) -> None:
    """Refuse a structure above the limit; None disables the check.

    :param key: the config key that sets the limit, for the error.
    :param what: the thing that is stored, such as ``"the payload of signal 'paid'"``.
    """
    if limit is None or (size := encoded_size(structure)) <= limit:
        return
    raise error_class(
        f"Cannot store {what}: its JSON has {size} bytes, the limit is {limit}. Keep the bulk elsewhere and pass a "
        f"reference to it, or raise '{key}' (None disables the limit)."
    )


class _Encoder:
    """Walks down one value and remembers the way, for errors."""

    def __init__(self, name: str) -> None:
        self._way = [name]
        self._parents: list[object] = []
        self.deepest = 0

    def structure_of(self, value: object) -> Structure:
        kind = _kind_of(value)
        try:
            if plain := PLAIN_WRITERS.get(kind):
                return plain(value)
            if form := SCALAR_FORMS.get(kind):
                return {form.tag: form.write(value)}
            if container := _CONTAINERS.get(kind):
                return self._container(value, container)
            return self._reference(value)
        except Unstorable as error:
            raise PayloadNotSerializable(
                f"Cannot store {''.join(self._way)}, a {type(value).__qualname__}: {error}."
            ) from error

    def _container(self, value: Any, write: Callable[[_Encoder, Any], Structure]) -> Structure:
        if len(self._parents) >= MAX_DEPTH:
            raise Unstorable(self._too_deep(value))
        self._parents.append(value)
        self.deepest = max(self.deepest, len(self._parents))
        structure = write(self, value)
        self._parents.pop()
        return structure

    def _too_deep(self, value: object) -> str:
        circular = any(parent is value for parent in self._parents)
        self._way[8:] = ["..."]
        if circular:
            return "it contains itself, which JSON cannot say; store a key in place of the inner reference"
        return f"it is nested deeper than {MAX_DEPTH} levels; store a flatter value"

    def _reference(self, value: object) -> Structure:
        if isinstance(value, Enum):
            return write_enum(value)
        state = record_state(value)
        if state is None:
            raise Unstorable(_why_not(value))
        reference, key = record_key(state)
        return {"$record": [reference, self.parts(key)]}

    def parts(self, values: Iterable[object]) -> list[Structure]:
        return [self._part(position, part) for position, part in enumerate(values)]

    def _part(self, label: object, part: object) -> Structure:
        self._way.append(f"[{label!r}]")
        structure = self.structure_of(part)
        self._way.pop()
        return structure

    def dictionary(self, value: dict[Any, object]) -> Structure:
        for key in value:
            if type(key) is not str:
                raise Unstorable(f"its key {key!r} is a {type(key).__qualname__}; make the keys str")
        if any(key.startswith("$") or not is_plain(key) for key in value):
            return {"$items": [[PLAIN_WRITERS[str](key), self._part(key, part)] for key, part in value.items()]}
        return {key: self._part(key, part) for key, part in value.items()}

    def unordered(self, value: Iterable[object]) -> list[Structure]:
        # Sorted by their text, so that equal sets are stored alike.
        return sorted(self.parts(value), key=to_text)


_CONTAINERS: Mapping[type, Callable[[_Encoder, Any], Structure]] = {
    list: lambda encoder, value: encoder.parts(value),
    tuple: lambda encoder, value: {"$tuple": encoder.parts(value)},
    dict: _Encoder.dictionary,
    set: lambda encoder, value: {"$set": encoder.unordered(value)},
    frozenset: lambda encoder, value: {"$frozenset": encoder.unordered(value)},
}


def _kind_of(value: object) -> type:
    kind = type(value)
    # freezegun puts subclasses in the place of datetime and date; they stand for their parents.
    return kind.__bases__[0] if kind.__module__ == "freezegun.api" else kind


def _why_not(value: object) -> str:
    for parent in (*PLAIN_WRITERS, *SCALAR_FORMS, *_CONTAINERS):
        if isinstance(value, parent):
            return (
                f"it is of a subclass of {parent.__name__} and would come back as another type; "
                f"convert it with {parent.__name__}(...) first"
            )
    return (
        "JSON cannot hold it; pass None, bool, int, float, str, list, tuple, dict, set, bytes, a date or time, "
        "timedelta, Decimal, UUID, an Enum member, or a record that is in the database"
    )


def _depth(structure: Structure) -> int:
    if isinstance(structure, dict):
        return 1 + max(map(_depth, structure.values()), default=0)
    if isinstance(structure, list):
        return 1 + max(map(_depth, structure), default=0)
    return 0


class _Decoder:
    """Walks up one structure."""

    def __init__(self, session: AnySession | None, find_model: FindModel | None) -> None:
        self._session = session
        self._find_model = find_model

    def value_of(self, structure: Structure) -> object:
        if isinstance(structure, list):
            return self.values_of(structure)
        if not isinstance(structure, dict):
            return structure
        if len(structure) == 1 and (tag := next(iter(structure))).startswith("$"):
            return self._tagged(tag, structure[tag])
        return {key: self.value_of(part) for key, part in structure.items()}

    def values_of(self, structures: Iterable[Structure]) -> list[object]:
        return [self.value_of(part) for part in structures]

    def _tagged(self, tag: str, stored: Any) -> object:
        if tag == "$record":
            return self._record(stored)
        try:
            if reader := SCALAR_READERS.get(tag):
                return reader(stored)
            return _CONTAINER_READERS[tag](self, stored)
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise PayloadNotSerializable(
                f"Cannot read a stored value tagged '{tag}': this version of Flask-Geneva does not write it so. "
                f"Run the version that wrote it, or mend the row."
            ) from error

    def _record(self, stored: list[Any]) -> object:
        reference, key = stored
        return load_record(reference, tuple(self.values_of(key)), self._session, self._find_model)

    def pairs(self, stored: list[list[Structure]]) -> dict[object, object]:
        return {self.value_of(key): self.value_of(part) for key, part in stored}


_CONTAINER_READERS: Mapping[str, Callable[[_Decoder, Any], object]] = {
    "$tuple": lambda decoder, stored: tuple(decoder.values_of(stored)),
    "$set": lambda decoder, stored: set(decoder.values_of(stored)),
    "$frozenset": lambda decoder, stored: frozenset(decoder.values_of(stored)),
    "$items": _Decoder.pairs,
    "$json": lambda decoder, stored: decoder.value_of(json.loads(stored)),
    "$enum": lambda decoder, stored: read_enum(stored),
    "$flag": lambda decoder, stored: read_flag(stored),
}
