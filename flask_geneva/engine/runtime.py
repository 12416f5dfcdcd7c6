"""What the engine needs of the application that it runs in: session, queue, settings, clock."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from flask import current_app
from sqlalchemy import inspect
from sqlalchemy.orm import Session, scoped_session

from flask_geneva.config import Settings
from flask_geneva.errors import ConfigurationError
from flask_geneva.records.class_names import mapper_called

if TYPE_CHECKING:
    from flask import Flask


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """A job to be sent: run this execution, at ``due`` or (None) at once."""

    job_id: str
    execution_id: int
    due: datetime | None
    options: Mapping[str, Any]


class Liveness(StrEnum):
    """What the queue knows of a job: a dead one has ended, or its heart stopped; an unknown one left no trace."""

    QUEUED = "queued"
    DELAYED = "delayed"
    RUNNING = "running"
    DEAD = "dead"
    UNKNOWN = "unknown"


class JobQueue(Protocol):
    """What the engine asks of a queue; it never learns which one it is."""

    def enqueue(self, requests: Sequence[JobRequest]) -> None:
        """Send all jobs in one round trip."""

    def liveness(self, job_ids: Sequence[str]) -> Mapping[str, Liveness]:
        """Say of each job what became of it."""

    def bookmark(self, name: str) -> int:
        """Return where a walk through many rows stopped; 0 for one that is to begin."""

    def set_bookmark(self, name: str, position: int) -> None:
        """Keep where a walk through many rows stopped."""


@dataclass(frozen=True, kw_only=True)
class Perishables:
    """Rows of another part of the library, which are kept as long as ended workflows are.

    ``delete_older_than(session, moment, limit)`` deletes at most so many that are older, and says how many there were;
    ``field`` is the one of housekeeping's summary that counts them.
    """

    field: str
    delete_older_than: Callable[[Session, datetime, int], int]


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """One application's engine."""

    app: Flask
    settings: Settings
    sessions: scoped_session[Any]
    queue: JobQueue
    workflow_class: type[Any]
    perishables: tuple[Perishables, ...] = ()

    def session(self) -> Session:
        """Return the application's session of the present context."""
        session: Session = self.sessions()
        return session

    def reclaim(self, session: Session) -> bool:
        """Make the session the present context's own again, where ``db.session.remove()`` has put it out of its place.

        Return whether another one was begun in its place, which is closed.
        """
        registry = self.sessions.registry
        usurper = registry() if registry.has() else None
        if usurper is session:
            return False
        if usurper is not None:
            usurper.close()
        registry.set(session)
        return usurper is not None

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        return datetime.now(UTC)

    def class_named(self, type_name: str) -> type[Any] | None:
        """Return the class that has the name a row has, or had it; None when no loaded module declares it."""
        mapper = mapper_called(inspect(self.workflow_class), type_name)
        return None if mapper is None or mapper.class_ is self.workflow_class else mapper.class_

    def name_of(self, type_name: str) -> str:
        """Return how the class of a row is called now; of one that no loaded module declares, as the row has it."""
        found = self.class_named(type_name)
        return type_name if found is None else str(found.definition.name)

    def names_of(self, type_name: str) -> tuple[str, ...]:
        """Return the names that rows of a class have, by the name that it has or had."""
        found = self.class_named(type_name)
        return (type_name,) if found is None else tuple(found.definition.stored_names)

    def declared_classes(self) -> dict[str, type[Any]]:
        """Return every workflow class that a loaded module declares, by the name that new rows have for it."""
        declared = inspect(self.workflow_class).polymorphic_map.items()
        return {name: mapper.class_ for name, mapper in declared if mapper.class_ is not self.workflow_class}


def new_job_id() -> str:
    """Return an id that no other job has; letters and digits only."""
    return f"geneva{secrets.token_hex(12)}"


def current_runtime() -> Runtime:
    """Return the engine of the current application.

    :raises ConfigurationError: outside an application context, or where the extension was not initialised.
    """
    if not current_app:
        raise ConfigurationError("There is no application context. Work inside 'with app.app_context():'.")
    state = current_app.extensions.get("geneva")
    if state is None:
        raise ConfigurationError(
            f"The application '{current_app.name}' has no Geneva. Call geneva.init_app(app, db) in its factory."
        )
    runtime: Runtime = state.runtime
    return runtime
