"""The databases that the suite runs on: which servers answer, a scratch database on each, emptied between tests."""

from __future__ import annotations

import getpass
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import URL, Connection, Engine, MetaData, create_engine, inspect, make_url, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from tests.harness.absence import ServerAbsent

SQLITE = "sqlite"
POSTGRESQL = "postgresql"
MARIADB = "mariadb"
MYSQL = "mysql"

_ADDRESSES = {
    POSTGRESQL: (
        "postgresql+psycopg://postgres@127.0.0.1:5432/postgres",
        "postgresql+psycopg://{user}@127.0.0.1:5432/postgres",
    ),
    # PyMySQL reads all certificates of the system for each connection that may be encrypted: 50 ms of CPU.
    MARIADB: ("mysql+pymysql://root@127.0.0.1:3306/?ssl_disabled=true",),
    MYSQL: (),
}


def kinds() -> list[str]:
    """The kinds to run on; MySQL only where it is named, since its usual address is MariaDB's."""
    always = [SQLITE, POSTGRESQL, MARIADB]
    return [*always, MYSQL] if os.environ.get(_variable(MYSQL)) else always


@dataclass(frozen=True, kw_only=True)
class ScratchDatabase:
    """One database on a server, made for this run of the suite."""

    server: URL
    url: URL

    def empty(self) -> None:
        """Delete all rows of all tables; far cheaper than dropping and creating tables, each a wait for the disk."""
        engine = create_engine(self.url, poolclass=NullPool)
        try:
            with engine.begin() as connection:
                _empty(connection, inspect(connection).get_table_names())
        finally:
            engine.dispose()


def create_missing_tables(engine: Engine, metadata: MetaData) -> None:
    """Make those tables of ``metadata`` that an earlier test did not make."""
    there = set(inspect(engine).get_table_names())
    if missing := [table for table in metadata.sorted_tables if table.name not in there]:
        metadata.create_all(engine, tables=missing, checkfirst=False)


def create_scratch(kind: str) -> ScratchDatabase:
    """Make a database of a unique name on the server of this kind.

    :raises ServerAbsent: no server of this kind answers.
    """
    server = _find(kind)
    name = f"geneva_test_{os.getpid()}_{secrets.token_hex(3)}"
    charset = "" if kind == POSTGRESQL else " CHARACTER SET utf8mb4"
    _administer(server, f"CREATE DATABASE {name}{charset}")
    return ScratchDatabase(server=server, url=server.set(database=name))


def drop_scratch(scratch: ScratchDatabase) -> None:
    """Drop the database, whoever is still connected to it."""
    force = " WITH (FORCE)" if scratch.server.get_backend_name() == POSTGRESQL else ""
    _administer(scratch.server, f"DROP DATABASE IF EXISTS {scratch.url.database}{force}")


def _find(kind: str) -> URL:
    """The address of the first server of this kind that answers."""
    failures = []
    for address in _candidates(kind):
        url = make_url(address)
        try:
            version = _version(url)
        except (SQLAlchemyError, ImportError) as error:
            failures.append(f"{_shown(url)} ({str(error).splitlines()[0]})")
            continue
        if kind == MARIADB and "MariaDB" not in version:
            failures.append(f"{_shown(url)} (it is not MariaDB but version {version}; name it in {_variable(MYSQL)})")
            continue
        return url
    raise ServerAbsent(f"{kind}: {'; '.join(failures)}; {_variable(kind)} names another")


def _candidates(kind: str) -> Iterable[str]:
    named = os.environ.get(_variable(kind))
    return (named,) if named else (address.format(user=getpass.getuser()) for address in _ADDRESSES[kind])


def _variable(kind: str) -> str:
    return f"GENEVA_TEST_{kind.upper()}_URL"


def _version(url: URL) -> str:
    engine = _server_engine(url)
    try:
        with engine.connect() as connection:
            return str(connection.scalar(text("SELECT version()")))
    finally:
        engine.dispose()


def _administer(server: URL, statement: str) -> None:
    engine = _server_engine(server)
    try:
        with engine.connect() as connection:
            connection.execute(text(statement))
    finally:
        engine.dispose()


def _server_engine(url: URL) -> Engine:
    return create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 5})


def _shown(url: URL) -> str:
    return f"{url.host}:{url.port}"


def _empty(connection: Connection, tables: list[str]) -> None:
    names = [connection.dialect.identifier_preparer.quote(name) for name in tables]
    if not names:
        return
    if connection.dialect.name == POSTGRESQL:
        _empty_postgresql(connection, names)
        return
    connection.execute(text("SET foreign_key_checks = 0, innodb_lock_wait_timeout = 20"))
    for name in names:
        connection.execute(text(f"DELETE FROM {name}"))
    connection.execute(text("SET foreign_key_checks = 1"))


def _empty_postgresql(connection: Connection, names: list[str]) -> None:
    connection.execute(text("SET LOCAL lock_timeout = '20s'"))
    if connection.scalar(text("SHOW is_superuser")) != "on":
        connection.execute(text(f"TRUNCATE {', '.join(names)} CASCADE"))
        return
    connection.execute(text("SET LOCAL session_replication_role = replica"))
    for name in names:
        connection.execute(text(f"DELETE FROM {name}"))
    connection.execute(text("SET LOCAL session_replication_role = origin"))
