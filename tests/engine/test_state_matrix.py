"""Five verbs in five states: what is allowed takes effect, what is not raises and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from flask_geneva import InvalidStateError, Workflow, step
from flask_geneva.records.tables import TABLES
from flask_geneva.testing import perform_next_step, speedrun
from tests.harness.models import Order, db


class MatrixFlow(Workflow[Order]):
    """Two steps."""

    @step
    def one(self) -> None:
        """Do nothing."""

    @step
    def two(self) -> None:
        """Do nothing."""


VERBS: dict[str, Callable[[Any], None]] = {
    "pause": lambda workflow: workflow.pause(),
    "resume": lambda workflow: workflow.resume(),
    "resume_at": lambda workflow: workflow.resume_at("two"),
    "skip": lambda workflow: workflow.skip(),
    "cancel": lambda workflow: workflow.cancel(),
}

REACH: dict[str, Callable[[Any], None]] = {
    "ready": lambda workflow: None,
    "performing": lambda workflow: _perform(workflow),
    "paused": lambda workflow: workflow.pause(),
    "finished": lambda workflow: speedrun(workflow),
    "canceled": lambda workflow: workflow.cancel(),
}

# What each verb makes of each state; None is a refusal. OPS-01 to OPS-17.
MATRIX = {
    "pause": {"ready": "paused", "performing": "performing", "paused": None, "finished": None, "canceled": None},
    "resume": {"ready": None, "performing": None, "paused": "ready", "finished": None, "canceled": None},
    "resume_at": {"ready": None, "performing": None, "paused": "ready", "finished": None, "canceled": None},
    "skip": {"ready": "ready", "performing": None, "paused": "ready", "finished": None, "canceled": None},
    "cancel": {
        "ready": "canceled",
        "performing": "performing",
        "paused": "canceled",
        "finished": None,
        "canceled": None,
    },
}


def _perform(workflow: Workflow[Any]) -> None:
    """As a worker leaves the rows while it runs a step."""
    execution = workflow.step_executions[0]
    db.session.execute(TABLES[1].update().where(TABLES[1].c.id == execution.id).values({"state": "in_progress"}))
    db.session.execute(TABLES[0].update().where(TABLES[0].c.id == workflow.id).values({"state": "performing"}))
    db.session.commit()


def snapshot() -> list[Any]:
    return [tuple(row) for table in TABLES for row in db.session.execute(select(*table.c).order_by(table.c.id))]


@pytest.mark.parametrize("state", REACH)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_in_a_state(app: Flask, verb: str, state: str) -> None:
    order = Order()
    db.session.add(order)
    workflow = MatrixFlow.create(hero=order)
    REACH[state](workflow)
    db.session.commit()
    before = snapshot()

    expected = MATRIX[verb][state]
    if expected is None:
        with pytest.raises(
            InvalidStateError, match=f"Cannot {verb} MatrixFlow #{workflow.id}: the workflow is {state}"
        ):
            VERBS[verb](workflow)
        assert snapshot() == before
    else:
        VERBS[verb](workflow)
        assert workflow.state == expected
        assert snapshot() != before
    db.session.rollback()
    assert snapshot() == before


@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_pressing_twice_on_a_performing_workflow_changes_nothing(app: Flask, verb: str) -> None:
    order = Order()
    db.session.add(order)
    workflow = MatrixFlow.create(hero=order)
    REACH["performing"](workflow)
    VERBS[verb](workflow)
    once = snapshot()

    VERBS[verb](workflow)

    assert workflow.pending_request == verb
    assert [row[:8] for row in snapshot()] == [row[:8] for row in once]


def test_a_cancel_request_beats_a_pause_and_cannot_be_withdrawn(app: Flask) -> None:
    order = Order()
    db.session.add(order)
    workflow = MatrixFlow.create(hero=order)
    REACH["performing"](workflow)

    workflow.pause()
    workflow.cancel()
    workflow.pause()

    assert workflow.pending_request == "cancel"
    with pytest.raises(InvalidStateError, match="a cancel is pending"):
        workflow.resume()


def test_a_pause_request_can_be_withdrawn(app: Flask) -> None:
    order = Order()
    db.session.add(order)
    workflow = MatrixFlow.create(hero=order)
    REACH["performing"](workflow)
    workflow.pause()

    workflow.resume()

    assert (workflow.state, workflow.pending_request) == ("performing", None)


def test_skip_walks_to_the_end(app: Flask) -> None:
    # OPS-50, OPS-51
    order = Order()
    db.session.add(order)
    workflow = MatrixFlow.create(hero=order)

    workflow.skip()
    workflow.skip()

    assert workflow.state == "finished"
    assert [each.state for each in workflow.execution_history] == ["skipped", "skipped"]


def test_a_paused_workflow_keeps_its_row_and_resumes_with_it(app: Flask) -> None:
    # OPS-18, OPS-25, OPS-28
    order = Order()
    db.session.add(order)
    workflow = MatrixFlow.create(hero=order)
    due = workflow.step_executions[0].scheduled_for

    for _ in range(2):
        workflow.pause()
        workflow.resume()

    (execution,) = workflow.execution_history
    assert (execution.state, execution.scheduled_for, workflow.transitioned_at) == ("scheduled", due, None)
    perform_next_step(workflow)
    assert workflow.next_step_name == "two"
