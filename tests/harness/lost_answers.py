"""Commits that come to pass, and whose answer never arrives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from sqlalchemy import Engine


@dataclass
class Answers:
    """How many commits there were, and whether the answer to the one in question was lost."""

    commits: int = 0
    is_lost: bool = False


@contextmanager
def losing_the_answer(
    to_commit: int, engine: Engine, *, comes_to_pass: bool = True, then: Callable[[], object] = lambda: None
) -> Iterator[Answers]:
    """Within the block end the connection at the engine's commit of this number, after it or (False) in its place.

    :param then: what somebody else does before the worker is back.
    """
    dialect = engine.dialect
    commit = dialect.do_commit
    numbers, answers = itertools.count(1), Answers()

    def do_commit(connection: Any) -> None:
        answers.commits = next(numbers)
        if answers.commits != to_commit:
            commit(connection)
            return
        answers.is_lost = True
        (commit if comes_to_pass else dialect.do_rollback)(connection)
        then()
        _lose(connection, engine)

    with mock.patch.object(dialect, "do_commit", do_commit):
        yield answers


def _lose(connection: Any, engine: Engine) -> None:
    """Raise what the driver raises for a connection that has ended; SQLite, which has none, is busy at worst."""
    error: Any = engine.dialect.loaded_dbapi.OperationalError  # type: ignore[attr-defined]
    if engine.dialect.name == "sqlite":
        raise error("database is locked")
    connection.dbapi_connection.close()
    if engine.dialect.name == "postgresql":
        raise error("the connection is closed")
    raise error(2013, "Lost connection to MySQL server during query")
