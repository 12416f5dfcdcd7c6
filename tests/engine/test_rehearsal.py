"""A worker compiles the statements of a step before it forks, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import event, func, select

from flask_geneva.engine.executor import execute
from flask_geneva.engine.rehearsal import rehearse
from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.records.tables import TABLES
from tests.harness.models import Order
from tests.harness.sample_workflows import TwoMarks


def test_a_rehearsal_leaves_no_row(app: Flask, db: SQLAlchemy) -> None:
    rehearse(current_runtime())

    assert [db.session.scalar(select(func.count()).select_from(table)) for table in TABLES] == [0, 0, 0]


def test_a_step_after_a_rehearsal_has_its_own_statements_compiled(
    app: Flask, db: SQLAlchemy, counting: Callable[..., Any]
) -> None:
    order = Order()
    db.session.add(order)
    workflow = TwoMarks.create(hero=order)
    db.session.commit()
    first = workflow.current_execution
    assert first is not None
    execution_id = first.id
    db.session.remove()
    rehearse(current_runtime())
    compiled: list[str] = []
    hits = {"geneva_workflows", "geneva_step_executions"}

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if context.cache_hit.name == "CACHE_MISS" and any(table in statement for table in hits):
            compiled.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    execute(Run(current_runtime(), db.session(), job_id="job", runs_ahead=False), execution_id)

    assert compiled == []
