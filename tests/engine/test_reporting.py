"""Which errors a job raises after everything is committed, for RQ and error trackers to see."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from flask import Flask

from flask_geneva import ExceptionPolicy, Workflow, events, on_exception, step
from flask_geneva.errors import StepNotDefinedError, WorkflowNotDefinedError
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.worker.jobs import perform_step
from tests.engine.elsewhere import Plan, elsewhere
from tests.engine.flows import Boom, Other, boom, planned, reload, run_job, start, states
from tests.harness.models import Order, db


class ReportedFlow(Workflow[Order]):
    """Each of its steps fails under another policy."""

    @step(on_exception=ExceptionPolicy("reattempt", max_reattempts=1))
    def always(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("reattempt", max_reattempts=1, report="never"))
    def never(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("reattempt", max_reattempts=1, report="terminal_only"))
    def terminal_only(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("skip", report="terminal_only"))
    def skipped(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("skip", report="never"))
    def skipped_silently(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("cancel", report="never"))
    def canceled_silently(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("skip", report="never"), skip_if=boom)
    def before_the_body(self) -> None:
        """Never get here."""


class HandledReportFlow(Workflow[Order]):
    """Its handlers decide, and are heard of or not."""

    @step
    def one(self) -> None:
        raise planned("error", self)

    @on_exception(Boom)
    def loud(self, error: Exception) -> None:
        planned("handler", self)

    @on_exception(Other, report="terminal_only")
    def quiet(self, error: Exception) -> None:
        planned("handler", self)

    @on_exception(KeyError, report="never")
    def mute(self, error: Exception) -> None:
        planned("handler", self)


class AheadFlow(Workflow[Order]):
    """Skips an error and would run straight on."""

    @step(on_exception="skip")
    def one(self) -> None:
        boom()

    @step
    def two(self) -> None:
        """Do nothing."""


def reported(workflow: Workflow[Any], times: int = 1) -> list[bool]:
    """Run the next jobs and say of each whether it raised the step's error."""
    told = []
    for _ in range(times):
        execution = reload(workflow).current_execution
        assert execution is not None
        told.append(run_job(execution.id).error_to_report is not None)
    return told


def at(step_name: str) -> Workflow[Any]:
    workflow = start(ReportedFlow)
    workflow.pause()
    workflow.resume_at(step_name)
    db.session.commit()
    return workflow


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("step_name", "expected", "end"),
    [
        ("always", [True, True], "failed"),  # EXC-48
        ("never", [False, False], "failed"),  # EXC-49
        ("terminal_only", [False, True], "failed"),  # EXC-50
        ("skipped", [True], "skipped"),  # EXC-50
        ("skipped_silently", [False], "skipped"),  # EXC-49
        ("canceled_silently", [False], "failed"),  # EXC-49
        ("before_the_body", [False], "skipped"),  # EXC-51
    ],
)
def test_an_error_is_reported_as_its_policy_says_and_the_action_taken_all_the_same(
    app: Flask, step_name: str, expected: list[bool], end: str
) -> None:
    workflow = at(step_name)

    assert reported(workflow, len(expected)) == expected

    attempts = [state for name, state, _ in states(reload(workflow)) if name == step_name]
    assert attempts[: len(expected)][-1] == end or attempts[-1] == end


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("verb", ["skip", "pause", "cancel", "finish", "reattempt", "none"])
@pytest.mark.parametrize(("error", "heard"), [(Boom(), "always"), (Other(), "terminal_only"), (KeyError(), "never")])
def test_a_handlers_error_is_reported_as_the_handler_says(
    app: Flask, plan: Plan, error: Exception, heard: str, verb: str
) -> None:
    # EXC-48 to EXC-51, EXC-54
    plan["error"] = lambda workflow: error
    if verb != "none":
        plan["handler"] = lambda workflow: getattr(workflow, verb)()
    workflow = start(HandledReportFlow)

    expected = heard == "always" or (heard == "terminal_only" and verb != "reattempt")
    assert reported(workflow) == [expected]


def test_the_error_itself_is_raised_by_the_job_after_the_commit(app: Flask) -> None:
    # EXC-53, EXE-13
    workflow = at("skipped")
    execution_id = workflow.execution_history[-1].id
    db.session.rollback()

    with elsewhere(), pytest.raises(Boom, match="bang"):
        perform_step(execution_id)

    assert states(reload(workflow))[1:] == [
        ("skipped", "skipped", "skipped"),
        ("skipped_silently", "scheduled", None),
    ]


def test_an_error_that_is_not_to_be_reported_is_not_raised(app: Flask) -> None:
    # EXC-49, EXC-53
    workflow = at("canceled_silently")
    execution_id = workflow.execution_history[-1].id
    db.session.rollback()

    with elsewhere():
        perform_step(execution_id)

    assert reload(workflow).state == "canceled"


def test_an_error_that_is_to_be_reported_ends_the_run_ahead(app: Flask) -> None:
    workflow = start(AheadFlow)

    run = run_job(workflow.execution_history[0].id, runs_ahead=True)

    assert isinstance(run.error_to_report, Boom)
    assert states(reload(workflow)) == [("one", "skipped", "skipped"), ("two", "scheduled", None)]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("column", "error"),
    [(step_executions.c.step_name, StepNotDefinedError), (workflows.c.type, WorkflowNotDefinedError)],
)
def test_what_has_vanished_is_always_reported(app: Flask, column: Any, error: type[Exception]) -> None:
    # MIS-04
    workflow = start(AheadFlow)
    execution_id = workflow.execution_history[0].id
    db.session.execute(column.table.update().values({column: "vanished"}))
    db.session.commit()

    with pytest.raises(error, match="vanished"):
        perform_step(execution_id)


@pytest.mark.databases("sqlite")
def test_subscribers_hear_of_an_error_that_is_not_reported(app: Flask) -> None:
    # EXC-52
    workflow, heard = at("canceled_silently"), []

    def listen(sender: Flask, **facts: Any) -> None:
        heard.append(facts)

    with events.step_finished.connected_to(listen):
        run_job(workflow.execution_history[-1].id)

    (facts,) = heard
    assert isinstance(facts["exception"], Boom)
    assert (facts["workflow_id"], facts["workflow_class"]) == (workflow.id, "ReportedFlow")
    assert (facts["step_name"], facts["execution_id"]) == ("canceled_silently", workflow.execution_history[-1].id)


@pytest.mark.databases("sqlite")
def test_the_log_names_all_that_belongs_to_the_error(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    # EXC-52
    workflow = at("canceled_silently")
    execution_id = workflow.execution_history[-1].id

    with caplog.at_level(logging.INFO, "flask_geneva"):
        run_job(execution_id)

    (record,) = [each for each in caplog.records if "The step met Boom: bang" in each.getMessage()]
    assert f"ReportedFlow #{workflow.id} Order {workflow.hero_id}, canceled_silently #{execution_id}" in str(record.msg)


@pytest.mark.databases("sqlite")
def test_nothing_is_reported_where_nothing_failed(app: Flask) -> None:
    workflow = start(AheadFlow)
    workflow.skip()
    db.session.commit()

    assert reported(workflow) == [False]
