"""A step that the code does not know any more pauses its workflow, and a person decides."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from flask_geneva import (
    ExceptionPolicy,
    StepNotDefinedError,
    Workflow,
    cancel_if,
    on_exception,
    step,
)
from flask_geneva.records.tables import signals, step_executions, workflows
from flask_geneva.testing import assert_signal_state, perform_next_step, speedrun
from tests.engine.elsewhere import Ledger, Plan, nothing_written
from tests.engine.flows import planned, reload, run_job, start, states
from tests.harness.models import Order, db, write_down


class ShrunkFlow(Workflow[Order]):
    """Had more steps yesterday."""

    @cancel_if
    def is_withdrawn(self) -> bool:
        return bool(planned("cancel_if", self))

    @step
    def one(self) -> None:
        write_down(self)

    @step
    def two(self) -> None:
        write_down(self)


class ShrunkSkippingFlow(ShrunkFlow):
    """Skips every error."""

    exception_policies = [ExceptionPolicy("skip")]


class ShrunkCancelingFlow(ShrunkFlow):
    """Cancels on every error."""

    exception_policies = [ExceptionPolicy("cancel", matching=StepNotDefinedError), ExceptionPolicy("cancel")]


class ShrunkHandlingFlow(ShrunkFlow):
    """Handles every error."""

    @on_exception
    def finish_it(self, error: Exception) -> None:
        self.finish()


def stranded(workflow_class: type[Workflow[Any]] = ShrunkFlow, **columns: Any) -> Workflow[Any]:
    """A workflow whose open row names a step that is gone."""
    workflow = start(workflow_class)
    db.session.execute(
        update(step_executions)
        .where(step_executions.c.workflow_id == workflow.id)
        .values(step_name="vanished", **columns)
    )
    db.session.execute(update(workflows).where(workflows.c.id == workflow.id).values(next_step_name="vanished"))
    db.session.commit()
    return reload(workflow)


def test_its_job_fails_the_execution_and_pauses_the_workflow(app: Flask, ledger: Ledger) -> None:
    # MIS-01, MIS-03, MIS-04, B-38
    workflow = stranded()
    execution_id = workflow.execution_history[0].id

    run = run_job(execution_id)

    (failed,) = reload(workflow).execution_history
    assert (failed.state, failed.outcome, workflow.state) == ("failed", "failed", "paused")
    assert failed.error_class_name == "StepNotDefinedError"
    assert failed.error_message == (
        f"Cannot run ShrunkFlow #{workflow.id}: step 'vanished' is not defined in ShrunkFlow. The steps defined are: "
        f"one, two. Continue from one of them with resume_at('step'), cancel the workflow, or declare "
        f"'vanished = removed_step()' where the step stood."
    )
    assert ledger(workflow) == []
    error = run.error_to_report
    assert isinstance(error, StepNotDefinedError)
    assert (error.workflow_name, error.step_name) == ("ShrunkFlow", "vanished")
    assert (error.workflow.id, error.execution.id) == (workflow.id, execution_id)  # type: ignore[attr-defined]
    assert (error.workflow.state, error.execution.state) == ("paused", "failed")  # type: ignore[attr-defined]


@pytest.mark.parametrize("workflow_class", [ShrunkSkippingFlow, ShrunkCancelingFlow, ShrunkHandlingFlow])
def test_no_policy_applies_to_it(app: Flask, workflow_class: type[Workflow[Any]]) -> None:
    # MIS-02
    workflow = stranded(workflow_class)

    with pytest.raises(StepNotDefinedError):
        perform_next_step(workflow)

    assert (workflow.state, states(workflow)) == ("paused", [("vanished", "failed", "failed")])


def test_no_condition_is_asked(app: Flask, plan: Plan) -> None:
    plan["cancel_if"] = lambda workflow: True
    workflow = stranded()

    perform_next_step(workflow, raise_errors=False)

    assert workflow.state == "paused"


def test_but_a_hero_that_is_gone_comes_first(app: Flask) -> None:
    # EXE-02
    workflow = stranded()
    db.session.delete(workflow.hero)
    db.session.commit()

    perform_next_step(workflow)

    assert (workflow.state, states(workflow)) == ("canceled", [("vanished", "canceled", "canceled")])


@pytest.mark.parametrize("verb", ["resume", "skip"])
def test_after_the_pause_the_verbs_that_would_have_to_guess_are_refused(app: Flask, verb: str) -> None:
    # MIS-05, OPS-37, OPS-60
    workflow = stranded()
    perform_next_step(workflow, raise_errors=False)

    with nothing_written(), pytest.raises(StepNotDefinedError, match=f"Cannot {verb} ShrunkFlow #{workflow.id}: "):
        getattr(workflow, verb)()

    assert reload(workflow).state == "paused"


def test_a_person_sends_it_on(app: Flask, ledger: Ledger) -> None:
    # MIS-05, OPS-45
    workflow = stranded()
    perform_next_step(workflow, raise_errors=False)

    workflow.resume_at("two")
    speedrun(workflow)

    assert (workflow.state, ledger(workflow)) == ("finished", ["two"])
    assert states(workflow)[0] == ("vanished", "failed", "failed")


def test_a_person_gives_it_up(app: Flask) -> None:
    # MIS-05
    workflow = stranded()
    perform_next_step(workflow, raise_errors=False)

    workflow.cancel()

    assert workflow.state == "canceled"


def test_nothing_follows_a_name_that_nobody_knows(app: Flask) -> None:
    # MIS-07
    assert ShrunkFlow.steps.next_after("vanished") is None
    assert ShrunkFlow.steps.previous_before("vanished") is None
    assert stranded().previous_step_name is None


@pytest.mark.parametrize("state", ["scheduled", "waiting"])
def test_a_row_that_a_pause_kept_is_refused_by_resume_and_canceled_by_resume_at(
    app: Flask, state: str, ledger: Ledger
) -> None:
    # MIS-08
    workflow = stranded(state=state)
    workflow.pause()
    db.session.commit()
    with nothing_written(), pytest.raises(StepNotDefinedError):
        workflow.resume()

    workflow.resume_at("one")
    speedrun(workflow)

    assert states(workflow)[0] == ("vanished", "canceled", "canceled")
    assert ledger(workflow) == ["one", "two"]


def test_a_signal_for_a_workflow_that_is_parked_on_it_is_buffered(app: Flask) -> None:
    workflow = stranded(state="waiting")

    workflow.signal("go")

    assert states(workflow) == [("vanished", "waiting", None)]
    assert_signal_state(workflow, "go", "pending")


def test_a_deadline_that_passes_on_it_pauses(app: Flask) -> None:
    workflow = stranded(state="waiting")
    db.session.execute(update(step_executions).values(deadline_at=step_executions.c.created_at))
    db.session.commit()

    run_job(workflow.execution_history[0].id)

    (failed,) = reload(workflow).execution_history
    assert (failed.state, failed.error_class_name, workflow.state) == ("failed", "StepNotDefinedError", "paused")


def test_the_signal_that_its_row_held_stays_claimed(app: Flask) -> None:
    workflow = start(ShrunkFlow)
    signal = workflow.signal("go")
    db.session.execute(update(signals).values(state="claimed", claimed=1))
    db.session.execute(update(step_executions).values(step_name="vanished", signal_id=signal.id))
    db.session.commit()
    perform_next_step(workflow, raise_errors=False)

    workflow.resume_at("two")
    speedrun(workflow)

    assert db.session.scalar(select(signals.c.state)) == "claimed"


def test_it_is_explained(app: Flask) -> None:
    workflow = stranded()
    assert "does not define it; it will be paused" in workflow.explain()

    perform_next_step(workflow, raise_errors=False)

    assert "paused at vanished, which ShrunkFlow does not define" in workflow.explain()
    assert "resume_at" in workflow.explain()


def test_the_stranded_can_be_found_by_the_class_of_their_error(app: Flask) -> None:
    # B-38
    workflow = stranded()
    start(ShrunkFlow)
    perform_next_step(workflow, raise_errors=False)

    found = db.session.scalars(
        select(Workflow)
        .join(Workflow.step_executions)
        .where(Workflow.state == "paused", step_executions.c.error_class_name == "StepNotDefinedError")
    )

    assert found.all() == [workflow]
