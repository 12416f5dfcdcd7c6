"""Five verbs in five states: what is allowed takes effect, what is not raises and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, update

from flask_geneva import GenevaError, InvalidStateError, StepNotDefinedError, Workflow, step
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.testing import perform_next_step, speedrun
from tests.engine.elsewhere import all_rows, elsewhere, nothing_written, press
from tests.engine.flows import reload, start
from tests.harness.models import Order, db


class MatrixFlow(Workflow[Order]):
    """Two steps."""

    @step
    def one(self) -> None:
        """Do nothing."""

    @step
    def two(self) -> None:
        """Do nothing."""


ARGUMENTS = {"pause": (), "resume": (), "resume_at": ("two",), "skip": (), "cancel": ()}

# What each verb makes of each state; None is a refusal. OPS-01 to OPS-17.
MATRIX: dict[str, dict[str, str | None]] = {
    "pause": {"ready": "paused", "performing": "performing", "paused": None},
    "resume": {"ready": None, "performing": None, "paused": "ready"},
    "resume_at": {"ready": None, "performing": None, "paused": "ready"},
    "skip": {"ready": "ready", "performing": None, "paused": "ready"},
    "cancel": {"ready": "canceled", "performing": "performing", "paused": "canceled"},
}
STATES = ("ready", "performing", "paused", "finished", "canceled")
CASES = [(verb, state) for verb in MATRIX for state in STATES]
REFUSED = [(verb, state) for verb, state in CASES if MATRIX[verb].get(state) is None]


def perform(workflow: Workflow[Any]) -> None:
    """Leave the rows as they are while a worker runs the step."""
    of_workflow = step_executions.c.workflow_id == workflow.id
    db.session.execute(update(step_executions).where(of_workflow).values(state="in_progress"))
    performing = {"state": "performing", "current_step_name": "one"}
    db.session.execute(update(workflows).where(workflows.c.id == workflow.id).values(performing))


BRING: dict[str, Callable[[Any], None]] = {
    "ready": lambda workflow: None,
    "performing": perform,
    "paused": lambda workflow: workflow.pause(),
    "finished": lambda workflow: speedrun(workflow),
    "canceled": lambda workflow: workflow.cancel(),
}


def brought_to(state: str) -> Workflow[Any]:
    workflow = start(MatrixFlow)
    BRING[state](workflow)
    db.session.commit()
    return workflow


def call(workflow: Workflow[Any], verb: str) -> None:
    getattr(workflow, verb)(*ARGUMENTS[verb])


@pytest.mark.parametrize(("verb", "state"), CASES)
def test_a_verb_does_what_the_table_says_or_writes_nothing(app: Flask, verb: str, state: str) -> None:
    # OPS-01 to OPS-17, OPS-65, B-06
    workflow = brought_to(state)
    before = all_rows()

    expected = MATRIX[verb].get(state)
    if expected is None:
        with pytest.raises(InvalidStateError, match=f"Cannot {verb} MatrixFlow #{workflow.id}: .* is {state}"):
            call(workflow, verb)
        assert all_rows() == before
    else:
        call(workflow, verb)
        assert workflow.state == expected
        assert all_rows() != before
    db.session.rollback()
    assert all_rows() == before


@pytest.mark.parametrize(("verb", "state"), CASES)
def test_a_stale_object_is_judged_by_the_row_under_the_lock(app: Flask, verb: str, state: str) -> None:
    # OPS-05
    workflow = start(MatrixFlow)
    assert workflow.state == "ready"
    with elsewhere():
        BRING[state](db.session.get_one(Workflow, workflow.id))
        db.session.commit()

    expected = MATRIX[verb].get(state)
    if expected is None:
        with pytest.raises(InvalidStateError, match=f"is {state}"):
            call(workflow, verb)
    else:
        call(workflow, verb)
        assert workflow.state == expected


@pytest.mark.parametrize(("verb", "state"), REFUSED)
@pytest.mark.databases("sqlite")
def test_a_refusal_says_what_to_do(app: Flask, verb: str, state: str) -> None:
    workflow = brought_to(state)

    with pytest.raises(InvalidStateError) as refusal:
        call(workflow, verb)

    assert str(refusal.value).startswith(f"Cannot {verb} MatrixFlow #{workflow.id}: the workflow is {state}. ")
    advice = {
        "ready": "pause it first",
        "performing": "Pause it and wait",
        "paused": "Resume, skip or cancel it",
        "finished": "create another one",
        "canceled": "create another one",
    }
    assert advice[state] in str(refusal.value)


@pytest.mark.parametrize(("verb", "state"), REFUSED)
@pytest.mark.databases("sqlite")
def test_a_refused_verb_sends_no_job_and_no_event(app: Flask, verb: str, state: str) -> None:
    workflow = brought_to(state)

    with pytest.raises(InvalidStateError):
        call(workflow, verb)

    assert not db.session.info.get("geneva_outbox")


@pytest.mark.parametrize(("state", "verb"), [("ready", "skip"), ("paused", "skip"), ("paused", "resume")])
def test_a_step_that_is_gone_is_refused_with_nothing_written(app: Flask, state: str, verb: str) -> None:
    # OPS-37, OPS-60, B-02, B-03
    workflow = brought_to(state)
    db.session.execute(update(step_executions).values(step_name="vanished"))
    db.session.commit()

    with nothing_written(), pytest.raises(StepNotDefinedError) as refusal:
        call(workflow, verb)

    assert refusal.value.workflow is workflow
    assert refusal.value.execution is None


@pytest.mark.parametrize("verb", ARGUMENTS)
@pytest.mark.parametrize("state", ["ready", "performing", "paused"])
def test_a_verb_shows_on_the_objects_of_the_session(app: Flask, state: str, verb: str) -> None:
    workflow = brought_to(state)
    execution, known = workflow.step_executions[0], list(workflow.step_executions)

    try:
        call(workflow, verb)
    except InvalidStateError:
        assert workflow.step_executions == known
        return

    loaded = {column: getattr(execution, column) for column in ("state", "outcome", "finished_at", "job_id")}
    assert len(workflow.step_executions) == len(workflow.execution_history)
    db.session.refresh(execution)
    assert loaded == {column: getattr(execution, column) for column in loaded}


@pytest.mark.parametrize("verb", ARGUMENTS)
@pytest.mark.databases("sqlite")
def test_a_verb_works_on_an_object_of_no_session(app: Flask, verb: str) -> None:
    workflow = brought_to("paused")
    db.session.refresh(workflow)
    db.session.expunge(workflow)

    if MATRIX[verb]["paused"] is None:
        with pytest.raises(InvalidStateError, match="is paused"):
            call(workflow, verb)
        return
    call(workflow, verb)
    db.session.commit()

    assert workflow.state == db.session.get_one(Workflow, workflow.id).state == MATRIX[verb]["paused"]


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_a_workflow_that_was_deleted_meanwhile_is_refused(app: Flask, verb: str) -> None:
    workflow = brought_to("paused")
    workflow_id = workflow.id
    db.session.rollback()
    with db.engine.begin() as other:
        other.execute(delete(step_executions))
        other.execute(delete(workflows))

    with pytest.raises(InvalidStateError, match=f"Cannot {verb} <MatrixFlow #{workflow_id}>: it is not stored"):
        call(workflow, verb)


@pytest.mark.databases("sqlite")
def test_a_workflow_that_was_never_created_is_refused(app: Flask) -> None:
    with pytest.raises(InvalidStateError, match="it is not stored"):
        MatrixFlow().pause()


@pytest.mark.parametrize(
    ("state", "verb", "column", "value"),
    [
        ("ready", "pause", "transitioned_at", "set"),
        ("paused", "resume", "transitioned_at", None),
        ("paused", "resume_at", "transitioned_at", None),
        ("paused", "skip", "transitioned_at", None),
        ("ready", "cancel", "transitioned_at", "set"),
        ("paused", "cancel", "transitioned_at", "set"),
    ],
)
def test_a_workflow_says_since_when_it_rests(app: Flask, state: str, verb: str, column: str, value: object) -> None:
    # OPS-18, OPS-25, OPS-47, OPS-54, OPS-61, EXE-19
    workflow = brought_to(state)

    call(workflow, verb)
    db.session.commit()

    assert (getattr(workflow, column) is None) == (value is None)
    assert workflow.current_step_name is None


def test_verbs_compose_in_one_transaction_and_are_undone_together(app: Flask) -> None:
    workflow = start(MatrixFlow)
    before = all_rows()

    workflow.pause()
    workflow.skip()
    workflow.pause()
    workflow.resume_at("one")
    workflow.cancel()

    assert workflow.state == "canceled"
    db.session.rollback()
    assert all_rows() == before
    assert workflow.state == "ready"
    perform_next_step(workflow)
    assert workflow.next_step_name == "two"


def test_a_savepoint_that_is_rolled_back_takes_the_verb_along(app: Flask) -> None:
    workflow = start(MatrixFlow)

    savepoint = db.session.begin_nested()
    workflow.cancel()
    savepoint.rollback()
    db.session.commit()

    assert workflow.state == "ready"
    assert [each.state for each in workflow.step_executions] == ["scheduled"]


def test_a_refusal_leaves_the_callers_transaction_alive(app: Flask) -> None:
    workflow = start(MatrixFlow)
    order = Order(state="new")
    db.session.add(order)

    with pytest.raises(GenevaError):
        workflow.resume()
    db.session.commit()

    assert db.session.get_one(Order, order.id).state == "new"


@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_what_others_committed_meanwhile_is_not_overwritten(app: Flask, verb: str) -> None:
    workflow = start(MatrixFlow)
    assert workflow.details == {}
    with elsewhere():
        theirs = db.session.get_one(Workflow, workflow.id)
        theirs.details["note"] = "theirs"
        db.session.commit()

    call(workflow, verb)
    db.session.commit()

    assert reload(workflow).details == {"note": "theirs"}


def test_a_button_pressed_elsewhere_is_seen_after_a_rollback(app: Flask) -> None:
    workflow = start(MatrixFlow)

    press(workflow.id, "pause")

    assert reload(workflow).state == "paused"
