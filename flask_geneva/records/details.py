"""The JSON column ``metadata`` as a dict that notices its own changes."""

from __future__ import annotations

from typing import Any, Protocol

from sqlalchemy.ext.mutable import MutableDict


class HasDetails(Protocol):
    """A mapped object with the raw JSON column."""

    stored_details: Any


class Details(MutableDict[str, Any]):
    """A copy of the stored details; each change assigns the whole to the object, so that a flush stores it."""

    def __init__(self, owner: HasDetails) -> None:
        super().__init__(owner.stored_details or {})
        self._owner = owner

    def changed(self) -> None:
        """Tell the owner."""
        self._owner.stored_details = dict(self)
