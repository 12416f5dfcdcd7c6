"""A database and a Redis of the benchmark's own, an application on them, and what is counted."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar
from unittest import mock

from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from redis.connection import AbstractConnection
from sqlalchemy import Engine, create_engine, event, make_url, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_geneva import Geneva, Workflow, step


class Base(DeclarativeBase):
    """The base of the benchmark's model."""


db = SQLAlchemy(model_class=Base)
geneva = Geneva()


class Parcel(db.Model):  # type: ignore[name-defined,misc]
    """A hero without weight."""

    __tablename__ = "parcels"
    id: Mapped[int] = mapped_column(primary_key=True)


def nothing(self: Any) -> None:
    """Do nothing."""


class TenSteps(Workflow[Any]):
    """Ten empty steps."""

    steps_of_it: ClassVar = [step(nothing) for _ in range(10)]


@dataclass
class Counted:
    """What this process has said since ``reset``: to the database by its engine, and to Redis."""

    statements: int = 0
    commits: int = 0
    begins: int = 0
    messages: int = 0

    def reset(self) -> None:
        self.statements = self.commits = self.begins = self.messages = 0

    @property
    def round_trips(self) -> int:
        """To the database, as psycopg makes them: the beginning of a transaction is one by itself."""
        return self.statements + self.commits + self.begins


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a benchmark runs."""

    app: Flask
    database_url: str
    redis_url: str
    counted: Counted = field(default_factory=Counted)

    def parcels(self, number: int) -> list[Any]:
        """Store heroes, and return them with their keys loaded."""
        parcels = [Parcel() for _ in range(number)]
        db.session.add_all(parcels)
        db.session.commit()
        return [parcel for parcel in parcels if parcel.id]


@contextlib.contextmanager
def place(server_url: str, redis_url: str, **config: Any) -> Iterator[Place]:
    """Make a scratch database and an application on it; drop it afterwards. The Redis database is emptied."""
    name = f"geneva_bench_{uuid.uuid4().hex[:8]}"
    server = create_engine(server_url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    url = make_url(server_url).set(database=name).render_as_string(hide_password=False)
    app = Flask("benchmark")
    app.config.from_mapping(SQLALCHEMY_DATABASE_URI=url, GENEVA_REDIS_URL=redis_url, **config)
    db.init_app(app)
    geneva.init_app(app, db)
    logging.disable(logging.INFO)
    found = Place(app=app, database_url=url, redis_url=redis_url)
    try:
        with app.app_context():
            db.create_all()
            geneva.redis.flushdb()
            _count(db.engine, found.counted)
            with _messages_counted(found.counted):
                yield found
            db.session.remove()
            db.engine.dispose()
            geneva.redis.flushdb()
    finally:
        with server.connect() as connection:
            force = " WITH (FORCE)" if server.dialect.name == "postgresql" else ""
            connection.execute(text(f"DROP DATABASE {name}{force}"))
        server.dispose()


@contextlib.contextmanager
def stopwatch() -> Iterator[dict[str, float]]:
    """Measure the wall and CPU seconds of the block."""
    measured: dict[str, float] = {}
    wall, cpu = time.perf_counter(), time.process_time()
    yield measured
    measured["wall"], measured["cpu"] = time.perf_counter() - wall, time.process_time() - cpu


def _count(engine: Engine, counted: Counted) -> None:
    @event.listens_for(engine, "before_cursor_execute")
    def count_statement(*_: Any) -> None:
        counted.statements += 1

    @event.listens_for(engine, "commit")
    def count_commit(_: Any) -> None:
        counted.commits += 1

    @event.listens_for(engine, "begin")
    def count_begin(_: Any) -> None:
        counted.begins += 1


@contextlib.contextmanager
def _messages_counted(counted: Counted) -> Iterator[None]:
    """Count what is sent to Redis, each of which is answered: a command, or a pipeline of them."""
    send = AbstractConnection.send_packed_command

    def count_and_send(*arguments: Any, **options: Any) -> Any:
        counted.messages += 1
        return send(*arguments, **options)

    with mock.patch.object(AbstractConnection, "send_packed_command", count_and_send):
        yield
