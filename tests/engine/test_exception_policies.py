"""What an error does to the rows: by the action, by where the policy stands, and wherever the error comes from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Mapped, mapped_column

from flask_geneva import ExceptionPolicy, StepExecution, StepTimeout, Workflow, step
from flask_geneva.records.tables import workflows
from flask_geneva.testing import perform_next_step, speedrun
from tests.engine.elsewhere import Ledger, Plan
from tests.engine.failing import raising
from tests.engine.flows import Boom, Other, boom, planned, reload, run_job, start, states
from tests.harness.models import LedgerEntry, Model, Order, db, write_down


class FailingFlow(Workflow[Order]):
    """Its first step may fail in its condition, in its matcher, in a hook or in its body."""

    def fails_early(self) -> bool:
        return bool(planned("skip_if", self))

    @step(skip_if="fails_early")
    def one(self) -> None:
        write_down(self)
        planned("one", self)

    @step(wait=timedelta(hours=1))
    def two(self) -> None:
        write_down(self)
        planned("two", self)

    def before_step_execution(self, execution: StepExecution) -> None:
        planned("before", self)

    @contextmanager
    def around_step_execution(self, execution: StepExecution) -> Iterator[None]:
        planned("around", self)
        yield

    def after_step_execution(self, execution: StepExecution) -> None:
        planned("after", self)


class DefaultFlow(FailingFlow):
    """Says nothing about errors."""


class PausedByPolicyFlow(FailingFlow):
    """Pauses."""

    exception_policies = [ExceptionPolicy("pause")]


class CanceledByPolicyFlow(FailingFlow):
    """Cancels."""

    exception_policies = [ExceptionPolicy("cancel")]


class SkippedByPolicyFlow(FailingFlow):
    """Skips."""

    exception_policies = [ExceptionPolicy("skip")]


class RetriedByPolicyFlow(FailingFlow):
    """Tries again in a minute."""

    exception_policies = [ExceptionPolicy("reattempt", wait=60)]


def refuse_at_the_commit(workflow: Any) -> None:
    db.session.add(LedgerEntry(workflow_id=workflow.id, execution_id=0))


def time_out(workflow: Any) -> None:
    raise StepTimeout("too slow")


PLACES = {
    "the body": ("one", boom),
    "the body, as a timeout": ("one", time_out),
    "the final commit": ("one", refuse_at_the_commit),
    "the condition": ("skip_if", boom),
    "the before hook": ("before", boom),
    "the around hook": ("around", boom),
    "the after hook": ("after", boom),
}

# EXC-01 to EXC-05, EXC-43 to EXC-46: attempt's state and outcome, the workflow's state, and what follows.
TABLE: dict[type[Workflow[Any]], tuple[str, str, str, str | None]] = {
    DefaultFlow: ("failed", "failed", "paused", None),
    PausedByPolicyFlow: ("failed", "failed", "paused", None),
    CanceledByPolicyFlow: ("failed", "canceled", "canceled", None),
    SkippedByPolicyFlow: ("skipped", "skipped", "ready", "two"),
    RetriedByPolicyFlow: ("completed", "reattempted", "ready", "one"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("workflow_class", TABLE)
def test_an_error_ends_the_attempt_by_one_table_wherever_it_comes_from(
    app: Flask, plan: Plan, ledger: Ledger, workflow_class: type[Workflow[Any]], place: str
) -> None:
    # EXC-01 to EXC-07, EXC-43 to EXC-46, B-07, B-16, B-28
    name, failure = PLACES[place]
    plan[name] = failure
    workflow = start(workflow_class)

    run = run_job(workflow.step_executions[0].id)

    state, outcome, workflow_state, follows = TABLE[workflow_class]
    first, *rest = reload(workflow).execution_history
    assert (first.state, first.outcome, workflow.state) == (state, outcome, workflow_state)
    assert [(each.step_name, each.state) for each in rest] == ([(follows, "scheduled")] if follows else [])
    assert first.finished_at is not None
    assert (workflow.next_step_name, workflow.current_step_name) == (follows or "one", None)
    assert (workflow.transitioned_at is None) == (workflow_state == "ready")
    assert type(run.error_to_report).__name__ == first.details["exception"]["class"]
    assert ledger(workflow) == []


@pytest.mark.parametrize("workflow_class", TABLE)
def test_the_error_is_kept_in_columns_where_the_attempt_failed_and_in_the_details_always(
    app: Flask, plan: Plan, workflow_class: type[Workflow[Any]]
) -> None:
    # EXC-01, EXC-03, EXC-04, EXC-05, EXC-07
    plan["one"] = boom
    workflow = start(workflow_class)

    perform_next_step(workflow, raise_errors=False)

    first = workflow.execution_history[0]
    columns = (first.error_class_name, first.error_message, first.error_backtrace is not None)
    assert columns == (("Boom", "bang", True) if first.state == "failed" else (None, None, False))
    record = first.details["exception"]
    assert (record["class"], record["message"]) == ("Boom", "bang")
    assert "in boom" in "\n".join(record["backtrace"])
    expected = "exception_policy" if first.outcome == "reattempted" else None
    assert first.details.get("reattempt_reason") == expected


def test_a_retry_that_succeeds_goes_on(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # EXC-05, EXC-06
    plan["one"] = boom
    workflow = start(RetriedByPolicyFlow)
    perform_next_step(workflow)
    failed, retry = workflow.execution_history
    assert failed.finished_at is not None
    assert retry.scheduled_for - failed.finished_at == timedelta(minutes=1)
    plan.clear()

    speedrun(workflow)

    assert (workflow.state, ledger(workflow)) == ("finished", ["one", "two"])


def test_a_precondition_says_that_it_was_one(app: Flask, plan: Plan) -> None:
    # EXC-46, PRE-21
    plan["skip_if"] = boom
    workflow = start(RetriedByPolicyFlow)

    perform_next_step(workflow)

    assert workflow.execution_history[0].details["reattempt_reason"] == "precondition"


@pytest.mark.parametrize("workflow_class", TABLE)
def test_a_hero_that_cannot_be_loaded_is_an_error_before_the_body(
    app: Flask, ledger: Ledger, workflow_class: type[Workflow[Any]]
) -> None:
    # EXC-43 to EXC-46, EXE-20
    workflow = start(workflow_class)
    execution_id = workflow.execution_history[0].id
    db.session.execute(update(workflows).values(hero_type="Vanished"))
    db.session.commit()

    run_job(execution_id)

    first = reload(workflow).execution_history[0]
    state, outcome, workflow_state, _ = TABLE[workflow_class]
    assert (first.state, first.outcome, workflow.state) == (state, outcome, workflow_state)
    assert first.details["exception"]["class"] == "ReferencedRecordMissing"


class FleetingHero(Model):
    """A hero whose table comes and goes."""

    __tablename__ = "fleeting_heroes"

    id: Mapped[int] = mapped_column(primary_key=True)


class FleetingFlow(Workflow[FleetingHero]):
    """Skips on an error."""

    @step(on_exception="skip")
    def one(self) -> None:
        """Do nothing."""

    @step(on_exception="pause")
    def two(self) -> None:
        """Do nothing."""


def test_a_hero_that_the_database_refuses_to_give_is_an_error_before_the_body(app: Flask) -> None:
    # EXC-43, EXC-44
    hero = FleetingHero()
    db.session.add(hero)
    workflow = FleetingFlow.create(hero=hero)
    db.session.commit()
    FleetingHero.__table__.drop(db.engine)  # type: ignore[attr-defined]

    run = run_job(workflow.step_executions[0].id)
    assert states(reload(workflow)) == [("one", "skipped", "skipped"), ("two", "scheduled", None)]
    assert isinstance(run.error_to_report, DBAPIError)
    assert "fleeting_heroes" in workflow.execution_history[0].details["exception"]["message"]

    run_job(workflow.execution_history[1].id)
    assert (reload(workflow).state, states(workflow)[1]) == ("paused", ("two", "failed", "failed"))


def test_what_the_steps_failed_flush_left_behind_does_not_spoil_the_ending(
    app: Flask, plan: Plan, ledger: Ledger
) -> None:
    def fail_in_a_flush(workflow: Any) -> None:
        refuse_at_the_commit(workflow)
        db.session.flush()

    plan["one"] = fail_in_a_flush
    workflow = start(SkippedByPolicyFlow)

    perform_next_step(workflow)

    assert states(workflow)[0] == ("one", "skipped", "skipped")
    assert workflow.execution_history[0].details["exception"]["class"] == "IntegrityError"


def test_the_hooks_verb_after_a_failure_counts_and_the_steps_writes_are_taken_back(
    app: Flask, plan: Plan, ledger: Ledger
) -> None:
    plan.update({"one": boom, "after": lambda workflow: workflow.cancel()})
    workflow = start(DefaultFlow)

    perform_next_step(workflow)

    assert (workflow.state, states(workflow)) == ("canceled", [("one", "canceled", "canceled")])
    assert ledger(workflow) == []


@pytest.mark.databases("sqlite")
def test_a_message_that_cannot_be_stored_as_it_is_is_stored_as_it_can_be(app: Flask, plan: Plan) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise Other

    for error, stored in ((Boom("a\x00b\ud800"), "a\\x00b\\ud800"), (Mute(), "<the message cannot be read: Other>")):
        plan["one"] = raising(error)
        workflow = start(DefaultFlow)
        perform_next_step(workflow, raise_errors=False)
        assert workflow.execution_history[0].error_message == stored


def test_a_very_long_message_is_cut_to_what_the_column_takes(app: Flask, plan: Plan) -> None:
    plan["one"] = raising(Boom("é" * 1_000_000))
    workflow = start(DefaultFlow)

    perform_next_step(workflow, raise_errors=False)

    stored = db.session.scalars(select(StepExecution)).one()
    assert workflow.state == "paused"
    assert 1_000 < len(stored.error_message or "") <= 10_000
    assert (stored.error_backtrace or "").endswith("é")
