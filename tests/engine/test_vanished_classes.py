"""Rows of a workflow class that no module declares: they load, show, and can be canceled, and nothing runs."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from flask_geneva import ExceptionPolicy, Workflow, WorkflowNotDefinedError, step
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.testing import assert_signal_state, perform_next_step, speedrun
from tests.engine.elsewhere import Ledger, nothing_written
from tests.engine.flows import run_job, start, states
from tests.harness.models import Order, db, write_down


class DepartedFlow(Workflow[Order]):
    """Plays the class that is gone: its rows are renamed."""

    exception_policies = [ExceptionPolicy("cancel")]

    @step
    def one(self) -> None:
        write_down(self)

    @step(wait_for="go")
    def two(self) -> None:
        write_down(self)


def rename(name: str) -> Any:
    """Rename the class of all rows and return the workflow as it loads then."""
    db.session.commit()
    db.session.execute(update(workflows).values(type=name))
    db.session.commit()
    db.session.expunge_all()
    return db.session.scalars(select(Workflow)).one()


def departed() -> Any:
    start(DepartedFlow)
    return rename("Departed")


def test_it_loads_as_a_plain_workflow_and_keeps_its_name(app: Flask) -> None:
    # MIS-06, NEW-23
    workflow = departed()

    assert type(workflow) is Workflow
    assert (workflow.type, workflow.state, workflow.next_step_name) == ("Departed", "ready", "one")
    assert isinstance(workflow.hero, Order)
    assert states(workflow) == [("one", "scheduled", None)]
    assert workflow.current_execution is workflow.step_executions[0]
    assert workflow.previous_step_name is None
    assert "no class named 'Departed' is declared" in workflow.explain()


def test_its_job_fails_the_execution_and_pauses_the_workflow_whatever_its_policies_were(
    app: Flask, ledger: Ledger
) -> None:
    # MIS-06, MIS-01, MIS-02
    workflow = departed()

    run = run_job(workflow.step_executions[0].id)

    db.session.expire_all()
    (failed,) = workflow.execution_history
    assert (failed.state, failed.outcome, workflow.state) == ("failed", "failed", "paused")
    assert failed.error_class_name == "WorkflowNotDefinedError"
    assert f"Cannot run workflow #{workflow.id}: no class named 'Departed' is declared" in (failed.error_message or "")
    assert ledger(workflow) == []
    error = run.error_to_report
    assert isinstance(error, WorkflowNotDefinedError)
    assert (error.type_name, error.workflow_id) == ("Departed", workflow.id)


@pytest.mark.parametrize(("verb", "arguments"), [("resume", ()), ("resume_at", ("one",)), ("skip", ())])
def test_verbs_that_need_the_class_are_refused_with_nothing_written(
    app: Flask, verb: str, arguments: tuple[str, ...]
) -> None:
    # MIS-06
    workflow = departed()
    workflow.pause()
    db.session.commit()

    with nothing_written(), pytest.raises(WorkflowNotDefinedError) as refusal:
        getattr(workflow, verb)(*arguments)

    assert str(refusal.value) == (
        f"Cannot {verb} workflow #{workflow.id}: no class named 'Departed' is declared in this process. Import the "
        f"module that declares it in the application factory, declare the class again, or cancel the workflow."
    )
    assert workflow.state == "paused"


@pytest.mark.parametrize("is_paused", [False, True])
def test_it_can_be_canceled(app: Flask, is_paused: bool) -> None:
    # MIS-06
    workflow = departed()
    if is_paused:
        workflow.pause()

    workflow.cancel()
    db.session.commit()

    assert (workflow.state, states(workflow)) == ("canceled", [("one", "canceled", "canceled")])


def test_a_signal_is_buffered(app: Flask) -> None:
    start(DepartedFlow)
    workflow = rename("Departed")

    workflow.signal("go")

    assert_signal_state(workflow, "go", "pending")


def test_when_the_class_is_back_a_person_resumes_it(app: Flask, ledger: Ledger) -> None:
    # MIS-06
    workflow = departed()
    run_job(workflow.step_executions[0].id)
    workflow = rename("DepartedFlow")

    workflow.resume()
    workflow.signal("go")
    speedrun(workflow)

    assert (workflow.state, ledger(workflow)) == ("finished", ["one", "two"])


def test_a_request_that_was_pending_is_honoured_when_its_dead_row_is_ended(app: Flask) -> None:
    workflow = departed()
    db.session.execute(update(workflows).values(pending_request="cancel"))
    db.session.commit()

    run_job(workflow.step_executions[0].id)

    db.session.expire_all()
    assert workflow.state == "canceled"


def test_a_parked_row_of_a_vanished_class_stays_parked_for_a_signal(app: Flask) -> None:
    workflow = start(DepartedFlow)
    perform_next_step(workflow)
    perform_next_step(workflow)
    departed_one = rename("Departed")

    departed_one.signal("go")
    db.session.commit()

    assert db.session.scalars(select(step_executions.c.state).order_by(step_executions.c.id)).all()[-1] == "waiting"
