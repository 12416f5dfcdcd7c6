"""A database without the columns of resumable steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import text

from flask_geneva import MigrationMissing, StepExecution
from flask_geneva.testing import speedrun
from tests.engine.elsewhere import Ledger, Plan
from tests.engine.flows import PlainFlow, reload, run_job, start, states
from tests.harness.models import db
from tests.iteration.flows import begun, over

TABLE = "geneva_step_executions"


class _Column:
    """The column of cursors, which can go and come back."""

    def __init__(self) -> None:
        self.is_there = True

    def goes(self) -> None:
        self._is_called("elsewhere", before="cursor_value")

    def comes_back(self) -> None:
        self._is_called("cursor_value", before="elsewhere")

    def _is_called(self, name: str, *, before: str) -> None:
        db.session.rollback()
        db.session.execute(text(f"ALTER TABLE {TABLE} RENAME COLUMN {before} TO {name}"))
        db.session.commit()
        self.is_there = not self.is_there


@pytest.fixture
def column(app: Flask) -> Iterator[_Column]:
    column = _Column()
    yield column
    # The tables are those of the tests that follow, too.
    if not column.is_there:
        column.comes_back()


def test_a_workflow_without_resumable_steps_needs_no_more_than_the_tables(app: Flask) -> None:
    # RES-65
    workflow = start(PlainFlow)
    workflow.pause()
    workflow.resume()
    db.session.commit()

    speedrun(workflow)

    assert workflow.state == "finished"


def test_a_job_finds_out_that_a_column_has_gone_and_a_plain_step_runs(column: _Column, ledger: Ledger) -> None:
    # RES-65: this process has seen the column, so that the job begins twice.
    workflow = start(PlainFlow)
    execution_id = workflow.current_execution.id if workflow.current_execution else None
    column.goes()

    run = run_job(execution_id)

    assert (run.error_to_report, states(reload(workflow))[0]) == (None, ("one", "completed", "success"))
    assert ledger(workflow) == ["one"]


def test_a_job_pauses_a_resumable_step_whose_column_has_gone(column: _Column, plan: Plan, ledger: Ledger) -> None:
    # RES-66
    workflow = begun(plan, over("abc"))
    execution_id = workflow.current_execution.id if workflow.current_execution else None
    column.goes()

    run = run_job(execution_id)

    failed = reload(workflow).execution_history[-1]
    assert isinstance(run.error_to_report, MigrationMissing)
    assert (failed.state, failed.error_class_name, reload(workflow).state) == ("failed", "MigrationMissing", "paused")
    assert re.search(rf"{TABLE}\.cursor_value.*flask geneva install.*flask db upgrade", failed.error_message or "")
    assert ledger(workflow) == []

    column.comes_back()
    reload(workflow).resume()
    db.session.commit()
    speedrun(workflow)
    assert workflow.state == "finished"


def test_an_execution_without_a_cursor_reads_none_and_is_not_resumed(app: Flask) -> None:
    # RES-67: and it cannot be written but by a checkpoint.
    execution = start(PlainFlow).execution_history[0]

    assert (execution.cursor_value, execution.resumed) == (None, False)
    with pytest.raises(AttributeError):
        execution.cursor_value = 3  # type: ignore[misc]
    assert db.session.get_one(StepExecution, execution.id).cursor_value is None
