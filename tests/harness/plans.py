"""How PostgreSQL means to execute the statements that something sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import event

from tests.harness.models import db


def plans_of(act: Callable[[], object]) -> list[str]:
    """The plans that PostgreSQL makes for the statements on our tables."""
    found: list[str] = []
    explaining = False

    def explain(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool) -> None:
        nonlocal explaining
        if explaining or "geneva_" not in statement:
            return
        explaining = True
        rows = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
        found.append(f"{statement}\n" + "\n".join(row[0] for row in rows))
        explaining = False

    event.listen(db.engine, "before_cursor_execute", explain)
    try:
        act()
    finally:
        event.remove(db.engine, "before_cursor_execute", explain)
    return found
