"""``flask geneva doctor``: what the workflows stand on, each line ok or how to mend it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import click
from flask import current_app
from redis import Redis
from sqlalchemy import select, text

from flask_geneva.cli.group import in_application, text_of
from flask_geneva.cli.install import migrations_directory
from flask_geneva.cli.options import as_json_option
from flask_geneva.cli.printing import print_json, print_table
from flask_geneva.config import without_password
from flask_geneva.engine.explanation import in_words
from flask_geneva.engine.runtime import Runtime, current_runtime
from flask_geneva.insights.listing import declared_classes
from flask_geneva.insights.schema import missing_from
from flask_geneva.migrations.installer import has_history, missing_revisions
from flask_geneva.records.dialects import MYSQL_DIALECTS
from flask_geneva.worker.presence import Presence, presence_on

_GAP_LOCKING = ("REPEATABLE READ", "SERIALIZABLE")
_READ_COMMITTED = (
    'Set SQLALCHEMY_ENGINE_OPTIONS = {"isolation_level": "READ COMMITTED"}: requests that send signals deadlock with '
    "others now and then under the isolation that is set"
)
TOLERATED_SKEW = timedelta(seconds=2)
_CLOCKS = {
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
    "mysql": "SELECT unix_timestamp(now(6))",
    "mariadb": "SELECT unix_timestamp(now(6))",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found out about one thing."""

    name: str
    ok: bool
    text: str


class Ill(Exception):
    """Something is not as it must be; the text says how to mend it."""


@click.command("doctor")
@as_json_option
@in_application
def examine(as_json: bool) -> None:
    """Look at database, migrations, Redis, workers, scheduler, clock and config; exit status 1 if any is not ok."""
    findings = list(_findings(_Patient(current_runtime())))
    if as_json:
        print_json(findings)
    else:
        print_table([("ok" if each.ok else "PROBLEM", each.name, each.text) for each in findings])
    if not all(each.ok for each in findings):
        click.get_current_context().exit(1)


def _findings(patient: _Patient) -> Iterator[Finding]:
    examinations: dict[str, Callable[[], str]] = {
        "database": patient.database,
        "migrations": patient.migrations,
        "redis": patient.answering_redis,
        "workers": patient.workers,
        "scheduler": patient.scheduler,
        "clock": patient.clock,
        "config": patient.config,
    }
    for name, examination in examinations.items():
        try:
            yield Finding(name=name, ok=True, text=examination())
        except Ill as error:
            yield Finding(name=name, ok=False, text=str(error))
        except Exception as error:
            yield Finding(name=name, ok=False, text=text_of(error))


class _Patient:
    """One application, and the questions that are asked of it; each is answered, or raises what is wrong."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._state = current_app.extensions["geneva"]

    def database(self) -> str:
        engine = self._state.db.engine
        with engine.connect() as connection:
            connection.execute(select(1))
            version = ".".join(str(part) for part in connection.dialect.server_version_info or ())
            locks_gaps = engine.dialect.name in MYSQL_DIALECTS and connection.get_isolation_level() in _GAP_LOCKING
        advice = f". {_READ_COMMITTED}" if locks_gaps else ""
        return f"{engine.dialect.name} {version} at {engine.url.render_as_string(hide_password=True)}{advice}"

    def migrations(self) -> str:
        db = self._state.db
        with db.engine.connect() as connection:
            missing = missing_from(connection, db.metadata)
        directory = migrations_directory()
        to_install = missing_revisions(directory) if has_history(directory) else []
        if to_install:
            raise Ill(f"{directory} lacks {len(to_install)} of our revisions. Run 'flask geneva install'.")
        if missing:
            raise Ill(f"The database lacks {', '.join(missing)}. Run 'flask db upgrade', or geneva.create_all().")
        return "every table and column is there"

    def answering_redis(self) -> str:
        version = self._redis.info("server")["redis_version"]
        return f"Redis {version} at {without_password(self._runtime.settings.redis_url)}"

    def workers(self) -> str:
        if self._presence.unserved:
            names = shlex.join(self._presence.unserved)
            raise Ill(f"No worker works on {_queues(self._presence.unserved)}. Run 'flask geneva worker {names}'.")
        return f"{len(self._presence.workers)} at work on {_queues(self._queues)}"

    def scheduler(self) -> str:
        if self._presence.unscheduled:
            raise Ill(
                f"Nobody sends the delayed jobs of {_queues(self._presence.unscheduled)}. 'flask geneva worker' does; "
                f"start 'rq worker' with --with-scheduler."
            )
        return f"sends the delayed jobs of {_queues(self._queues)}"

    def clock(self) -> str:
        skews = {"Redis": self._skew_of_redis(), "the database": self._skew_of_database()}
        for whose, skew in skews.items():
            if abs(skew) > TOLERATED_SKEW:
                direction = "ahead of" if skew > timedelta(0) else "behind"
                raise Ill(
                    f"The clock of {whose} is {in_words(skew)} {direction} this machine's. Synchronise them (NTP): "
                    f"steps would start early or late."
                )
        return "this machine, the database and Redis agree"

    def config(self) -> str:
        if not self._runtime.settings.enqueue:
            raise Ill(
                "'GENEVA_ENQUEUE' is False, so that no step is sent to Redis. Take it out where steps should run."
            )
        if self._runtime.settings.housekeeping_interval is None:
            return "understood; housekeeping runs only when it is called, for 'GENEVA_HOUSEKEEPING_INTERVAL' is None"
        return "every GENEVA_ key is understood"

    @property
    def _redis(self) -> Redis:
        redis: Redis = self._state.queue.redis
        return redis

    @cached_property
    def _queues(self) -> tuple[str, ...]:
        """The default queue, and those that workflow classes and their steps name."""
        named = {self._runtime.settings.queue}
        for declared in declared_classes(self._runtime).values():
            definition = declared.definition
            options = [definition.job_options, *(step.job_options for step in definition.steps.values())]
            named.update(each["queue"] for each in options if each.get("queue"))
        return tuple(sorted(named))

    @cached_property
    def _presence(self) -> Presence:
        return presence_on(self._redis, self._queues)

    def _skew_of_redis(self) -> timedelta:
        seconds, microseconds = self._redis.time()
        return _skew(self._runtime, seconds + microseconds / 1_000_000)

    def _skew_of_database(self) -> timedelta:
        engine = self._state.db.engine
        statement = _CLOCKS.get(engine.dialect.name)
        if statement is None:
            return timedelta(0)
        with engine.connect() as connection:
            return _skew(self._runtime, connection.execute(text(statement)).scalar_one())


def _skew(runtime: Runtime, seconds: Any) -> timedelta:
    return datetime.fromtimestamp(float(seconds), UTC) - runtime.now()


def _queues(names: tuple[str, ...]) -> str:
    quoted = ", ".join(f"'{name}'" for name in names)
    return f"queue{'' if len(names) == 1 else 's'} {quoted}"
