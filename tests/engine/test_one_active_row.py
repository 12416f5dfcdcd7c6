"""One active execution a workflow and one ongoing workflow a class and hero: the database itself refuses a second."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from flask_geneva import Workflow
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.testing import perform_step, speedrun
from tests.engine.flows import PlainFlow, start, states
from tests.harness.models import db


def copy_of(table: Any, row_id: int, **changes: Any) -> dict[Any, Any]:
    row = db.session.execute(select(*table.c).where(table.c.id == row_id)).one()
    values = dict(zip(table.c.keys(), row, strict=True)) | changes
    return {table.c[key]: value for key, value in values.items() if key != "id"}


@pytest.mark.parametrize(("state", "is_refused"), [("scheduled", True), ("in_progress", True), ("waiting", False)])
def test_a_second_active_execution_is_refused(app: Flask, state: str, is_refused: bool) -> None:
    # SCH-05, DBS-06
    workflow = start(PlainFlow)
    second = step_executions.insert().values(copy_of(step_executions, workflow.step_executions[0].id, state=state))

    if is_refused:
        with pytest.raises(IntegrityError):
            db.session.execute(second)
    else:
        db.session.execute(second)
    db.session.rollback()


@pytest.mark.parametrize(
    ("changes", "is_refused"), [({}, True), ({"state": "finished"}, False), ({"allow_multiple": True}, False)]
)
def test_a_second_ongoing_workflow_is_refused(app: Flask, changes: dict[str, Any], is_refused: bool) -> None:
    # NEW-11
    workflow = start(PlainFlow)
    second = workflows.insert().values(copy_of(workflows, workflow.id, **changes))

    if is_refused:
        with pytest.raises(IntegrityError):
            db.session.execute(second)
    else:
        db.session.execute(second)
    db.session.rollback()


def test_a_step_that_is_run_out_of_order_cancels_what_was_scheduled(app: Flask) -> None:
    # SCH-04, TST-06
    workflow = start(PlainFlow)

    perform_step(workflow, "two")

    assert states(workflow) == [("one", "canceled", "canceled"), ("two", "completed", "success")]


def test_the_success_of_the_last_step_finishes_the_workflow(app: Flask) -> None:
    # EXE-04, TST-01
    workflow = start(PlainFlow)

    speedrun(workflow)

    assert workflow.state == "finished"
    assert workflow.transitioned_at is not None
    assert [state for _, state, _ in states(workflow)] == ["completed", "completed"]


def test_a_plain_workflow_of_no_class_has_no_steps_and_is_finished_at_once(app: Flask) -> None:
    # NEW-24
    hero = start(PlainFlow).hero

    workflow: Workflow[Any] = Workflow.create(hero=hero)

    assert workflow.state == "finished"
