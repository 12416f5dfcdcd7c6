"""A database without the columns of resumable steps: here they came with the tables, in the first revision."""

from __future__ import annotations

import pytest
from flask import Flask
from sqlalchemy import text

from flask_geneva import MigrationMissing, StepExecution
from flask_geneva.testing import perform_next_step, speedrun
from tests.engine.elsewhere import Ledger, Plan, all_rows
from tests.engine.flows import PlainFlow, start
from tests.harness.models import db
from tests.iteration.flows import begun, over

TABLE = "geneva_step_executions"


def _rename(column: str, name: str) -> None:
    db.session.rollback()
    db.session.execute(text(f"ALTER TABLE {TABLE} RENAME COLUMN {column} TO {name}"))
    db.session.commit()


def test_a_workflow_without_resumable_steps_needs_no_more_than_the_tables(app: Flask) -> None:
    # RES-65
    workflow = start(PlainFlow)
    workflow.pause()
    workflow.resume()
    db.session.commit()

    speedrun(workflow)

    assert workflow.state == "finished"


@pytest.mark.parametrize("kind", ["plain", "resumable"])
def test_a_table_that_lacks_the_column_is_named_with_the_remedy_and_no_step_runs(
    app: Flask, plan: Plan, ledger: Ledger, kind: str
) -> None:
    # RES-66, also for plain steps, since such a table is of no revision: no policy is asked, and every row stays as it
    # is until the table is whole.
    workflow = begun(plan, over("abc")) if kind == "resumable" else start(PlainFlow)
    before = all_rows()
    _rename("cursor_value", "elsewhere")

    with pytest.raises(MigrationMissing, match=rf"{TABLE}.*flask geneva install.*flask db upgrade"):
        perform_next_step(workflow)

    _rename("elsewhere", "cursor_value")
    assert (all_rows(), ledger(workflow)) == (before, [])
    speedrun(workflow)
    assert workflow.state == "finished"


def test_an_execution_without_a_cursor_reads_none_and_is_not_resumed(app: Flask) -> None:
    # RES-67: and it cannot be written but by a checkpoint.
    execution = start(PlainFlow).execution_history[0]

    assert (execution.cursor_value, execution.resumed) == (None, False)
    with pytest.raises(AttributeError):
        execution.cursor_value = 3  # type: ignore[misc]
    assert db.session.get_one(StepExecution, execution.id).cursor_value is None
