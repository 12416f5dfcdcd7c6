"""Counts what goes to the database: promises about speed are promises about statements and commits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, event


@dataclass(kw_only=True)
class Traffic:
    """What an engine was asked to do, in order; ``COMMIT`` and ``ROLLBACK`` stand among the statements in ``log``."""

    log: list[str] = field(default_factory=list)
    statements: int = 0
    commits: int = 0
    rollbacks: int = 0

    @property
    def summary(self) -> str:
        """The totals, in words."""
        return f"{self.statements} statements, {self.commits} commits, {self.rollbacks} rollbacks"

    def __str__(self) -> str:
        lines = [f"{number:>4}  {' '.join(entry.split())[:200]}" for number, entry in enumerate(self.log, start=1)]
        return "\n".join([self.summary, *lines])


@contextlib.contextmanager
def counting_on(engine: Engine) -> Iterator[Traffic]:
    """Count from here to the end of the block, then print the log (pytest shows it when the test fails)."""
    traffic = Traffic()

    def statement(_connection: Any, _cursor: Any, text: str, *_rest: Any) -> None:
        traffic.statements += 1
        traffic.log.append(text)

    def commit(_connection: Any) -> None:
        traffic.commits += 1
        traffic.log.append("COMMIT")

    def rollback(_connection: Any) -> None:
        traffic.rollbacks += 1
        traffic.log.append("ROLLBACK")

    listeners: dict[str, Callable[..., None]] = {
        "before_cursor_execute": statement,
        "commit": commit,
        "rollback": rollback,
    }
    for name, listener in listeners.items():
        event.listen(engine, name, listener)
    try:
        yield traffic
    finally:
        for name, listener in listeners.items():
            event.remove(engine, name, listener)
        print(traffic)
