"""Rows are stored in their order and only over what was read, one by one or several in one statement."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime

import pytest
from flask import Flask
from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError

from flask_geneva.engine.transactions import lock_both
from flask_geneva.records.saving import StaleRow, save
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.records.transitions import move_execution, move_workflow, new_execution, new_workflow
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import Outcome, StepState, WorkflowState
from tests.harness.counting import Traffic
from tests.harness.models import db

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 3, 1, 13, tzinfo=UTC)

Counting = Callable[[], AbstractContextManager[Traffic]]


@pytest.fixture
def pair(app: Flask) -> tuple[WorkflowRow, ExecutionRow]:
    """A workflow and its scheduled execution, as the engine reads them."""
    workflow = new_workflow(type="Nobody", allow_multiple=True, next_step_name="one")
    save(db.session(), workflow, now=NOW)
    execution = new_execution(workflow_id=workflow.id, step_name="one", scheduled_for=NOW, job_id="one")
    save(db.session(), execution, now=NOW)
    db.session.commit()
    found = lock_both(db.session(), workflow.id, execution.id)
    assert found is not None
    return found


def ended(pair: tuple[WorkflowRow, ExecutionRow]) -> tuple[ExecutionRow, ExecutionRow, WorkflowRow]:
    """What the end of a step leaves to be saved: its row, the row of the next one, the workflow."""
    workflow, execution = pair
    move_execution(execution, StepState.IN_PROGRESS, now=NOW)
    move_execution(execution, StepState.COMPLETED, now=NOW, outcome=Outcome.SUCCESS)
    execution.note(tea={"cups": [1, None]})
    follower = new_execution(workflow_id=workflow.id, step_name="two", scheduled_for=LATER, job_id="two")
    workflow.change(next_step_name="two", current_step_name=None)
    return execution, follower, workflow


def test_an_end_a_beginning_and_the_workflow_are_stored_together(
    pair: tuple[WorkflowRow, ExecutionRow], counting: Counting, database_kind: str
) -> None:
    first, second, workflow = ended(pair)

    with counting() as traffic:
        save(db.session(), first, None, second, workflow, now=LATER)
    db.session.commit()

    assert traffic.statements == (1 if database_kind == "postgresql" else 3)
    rows = db.session.execute(select(step_executions).order_by(step_executions.c.id)).all()
    assert [(row.state, row.outcome, row.step_name) for row in rows] == [
        ("completed", "success", "one"),
        ("scheduled", None, "two"),
    ]
    assert second.id == rows[1].id
    assert rows[0].details == {"tea": {"cups": [1, None]}}
    assert [row.created_at for row in rows] == [NOW, LATER]
    assert rows[1].updated_at == rows[0].updated_at == LATER
    assert (rows[1].completed_iterations, rows[1].scheduled_for) == (0, LATER)
    row = db.session.execute(select(workflows)).one()
    assert (row.next_step_name, row.updated_at) == ("two", LATER)


def test_what_was_stored_is_stored_once(pair: tuple[WorkflowRow, ExecutionRow], counting: Counting) -> None:
    rows = ended(pair)
    save(db.session(), *rows, now=LATER)

    with counting() as traffic:
        save(db.session(), *rows, now=LATER)

    assert traffic.statements == 0


@pytest.mark.parametrize("moved", ["execution", "workflow"])
def test_a_row_that_was_moved_is_stale_and_is_named(pair: tuple[WorkflowRow, ExecutionRow], moved: str) -> None:
    rows = ended(pair)
    table, state = (step_executions, "canceled") if moved == "execution" else (workflows, "paused")
    db.session.execute(update(table).values(state=state))

    with pytest.raises(StaleRow, match=f"geneva_.*{moved}s #"):
        save(db.session(), *rows, now=LATER)


def test_nothing_is_inserted_behind_a_row_that_was_moved(pair: tuple[WorkflowRow, ExecutionRow]) -> None:
    first, second, workflow = ended(pair)
    db.session.execute(update(step_executions).values(state="in_progress"))

    # The follower would meet the unique index: what is told is the cause.
    with pytest.raises(StaleRow):
        save(db.session(), first, second, workflow, now=LATER)

    assert db.session.scalar(select(func.count()).select_from(step_executions)) == 1


def test_a_second_active_row_is_refused_also_in_company(pair: tuple[WorkflowRow, ExecutionRow]) -> None:
    workflow, execution = pair
    execution.note(tea=1)
    second = new_execution(workflow_id=workflow.id, step_name="two", scheduled_for=LATER, job_id="two")

    with pytest.raises(IntegrityError):
        save(db.session(), execution, second, now=LATER)


def test_several_rows_in_a_row_may_end_at_once(pair: tuple[WorkflowRow, ExecutionRow]) -> None:
    first, second, workflow = ended(pair)
    move_execution(second, StepState.SKIPPED, now=NOW, outcome=Outcome.SKIPPED)
    third = new_execution(workflow_id=workflow.id, step_name="three", scheduled_for=LATER, job_id="three")
    move_workflow(workflow, WorkflowState.PAUSED, now=LATER)

    save(db.session(), first, second, third, workflow, now=LATER)
    db.session.commit()

    states = db.session.scalars(select(step_executions.c.state).order_by(step_executions.c.id)).all()
    assert states == ["completed", "skipped", "scheduled"]
    assert db.session.scalar(select(workflows.c.state)) == "paused"
