"""Imperative handlers decide what an error does; one that fails itself, or decides nothing, pauses."""

from __future__ import annotations

import traceback
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from flask_geneva import ExceptionPolicy, IterableStep, Workflow, on_exception, resumable_step, step
from flask_geneva.testing import perform_next_step, speedrun
from tests.engine.elsewhere import Ledger, Plan
from tests.engine.flows import PLAN, Boom, Other, boom, planned, reload, run_job, start, states
from tests.harness.models import LedgerEntry, Order, db, write_down


class AskedFlow(Workflow[Order]):
    """Asks its handler about every error, also about one of the condition of its first step."""

    @step(skip_if=lambda workflow: planned("skip_if", workflow))
    def one(self) -> None:
        write_down(self)
        planned("one", self)

    @step
    def two(self) -> None:
        write_down(self)

    @on_exception
    def decide(self, error: Exception) -> None:
        write_down(self, "handler")
        planned("handler", self, error)


class QuietFlow(Workflow[Order]):
    """Its handler is not to be heard of."""

    @step(on_exception=[ExceptionPolicy(handler=lambda workflow, error: None, report="never")])
    def one(self) -> None:
        boom()


class PatientFlow(Workflow[Order]):
    """Its handler tries again and again."""

    @step
    def one(self) -> None:
        boom()

    @on_exception
    def decide(self, error: Exception) -> None:
        self.reattempt(wait=planned("wait", self))


class SuspendingFlow(Workflow[Order]):
    """Its handler suspends a resumable step."""

    @resumable_step
    def one(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(3)):
            write_down(self, f"item {number}")
            if number == 1:
                boom()

    @on_exception
    def decide(self, error: Exception) -> None:
        self.suspend(wait=planned("wait", self))


def failing_at(place: str, handler: Any) -> Workflow[Any]:
    """Run the job of a workflow whose first step fails there, and whose handler does this."""
    PLAN["one" if place == "body" else "skip_if"] = boom
    PLAN["handler"] = handler
    workflow = start(AskedFlow)
    run_job(workflow.step_executions[0].id)
    return reload(workflow)


def rows_for_the_database_to_refuse() -> LedgerEntry:
    entry = LedgerEntry(workflow_id=0, execution_id=0)
    db.session.add(entry)
    return entry


@pytest.mark.parametrize("place", ["body", "condition"])
@pytest.mark.parametrize(
    ("verb", "state", "outcome", "workflow_state", "follows"),
    [
        ("pause", "failed", "failed", "paused", []),
        ("cancel", "failed", "canceled", "canceled", []),
        ("skip", "skipped", "skipped", "ready", ["two"]),
        ("reattempt", "completed", "reattempted", "ready", ["one"]),
        ("finish", "completed", "success", "finished", []),
    ],
)
def test_a_handlers_verb_ends_the_step_as_a_policy_of_that_name_would(
    app: Flask,
    plan: Plan,
    ledger: Ledger,
    place: str,
    verb: str,
    state: str,
    outcome: str,
    workflow_state: str,
    follows: list[str],
) -> None:
    # EXC-19, EXC-20, EXC-21, EXC-47, B-07
    workflow = failing_at(place, lambda handled, error: getattr(handled, verb)())

    first, *rest = workflow.execution_history
    assert (first.state, first.outcome, workflow.state) == (state, outcome, workflow_state)
    assert [each.step_name for each in rest] == follows
    assert first.details["exception"]["class"] == "Boom"
    assert ledger(workflow) == ["handler"], "its own writes are kept, the step's are not"


@pytest.mark.parametrize("place", ["body", "condition"])
def test_a_handler_without_a_verb_pauses_and_its_writes_are_taken_back(
    app: Flask, plan: Plan, ledger: Ledger, place: str
) -> None:
    # EXC-22
    workflow = failing_at(place, lambda handled, error: None)

    (execution,) = workflow.execution_history
    assert (execution.state, execution.outcome, workflow.state) == ("failed", "failed", "paused")
    assert (execution.error_class_name, execution.error_message) == ("Boom", "bang")
    assert ledger(workflow) == []


def raise_other(workflow: Any, error: Exception) -> None:
    raise Other("the handler is broken")


@pytest.mark.parametrize("place", ["body", "condition"])
def test_a_handler_that_raises_pauses_with_the_steps_error_and_its_own_below(
    app: Flask, plan: Plan, ledger: Ledger, place: str
) -> None:
    # B-29
    workflow = failing_at(place, raise_other)

    (execution,) = workflow.execution_history
    assert (execution.state, execution.outcome, workflow.state) == ("failed", "failed", "paused")
    assert (execution.error_class_name, execution.error_message) == ("Boom", "bang")
    assert "the handler is broken" in (execution.error_backtrace or "")
    assert ledger(workflow) == []


@pytest.mark.parametrize("place", ["body", "condition"])
def test_a_handler_whose_writes_the_database_refuses_has_failed(app: Flask, plan: Plan, place: str) -> None:
    def skip_with_a_bad_row(workflow: Any, error: Exception) -> None:
        rows_for_the_database_to_refuse()
        workflow.skip()

    workflow = failing_at(place, skip_with_a_bad_row)

    (execution,) = workflow.execution_history
    assert (execution.state, execution.error_class_name, workflow.state) == ("failed", "Boom", "paused")
    assert "IntegrityError" in (execution.error_backtrace or "")


@pytest.mark.parametrize("place", ["body", "condition"])
def test_a_handler_that_got_over_a_refused_write_has_its_verb(
    app: Flask, plan: Plan, ledger: Ledger, place: str
) -> None:
    def skip_all_the_same(workflow: Any, error: Exception) -> None:
        rows_for_the_database_to_refuse()
        with pytest.raises(Exception, match="step"):
            db.session.flush()
        workflow.skip()

    workflow = failing_at(place, skip_all_the_same)

    assert states(workflow)[0] == ("one", "skipped", "skipped")
    assert ledger(workflow) == []


@pytest.mark.parametrize("end", ["rollback", "commit"])
@pytest.mark.parametrize("place", ["body", "condition"])
def test_a_handler_may_end_the_transaction_before_its_verb(
    app: Flask, plan: Plan, ledger: Ledger, place: str, end: str
) -> None:
    def end_and_skip(workflow: Any, error: Exception) -> None:
        getattr(db.session, end)()
        write_down(workflow, "afterwards")
        workflow.skip()

    workflow = failing_at(place, end_and_skip)

    assert states(workflow) == [("one", "skipped", "skipped"), ("two", "scheduled", None)]
    assert ledger(workflow) == (["afterwards"] if end == "rollback" else ["handler", "afterwards"])


@pytest.mark.parametrize("end", ["rollback", "commit"])
def test_a_handler_that_ends_the_transaction_harms_no_step_before(
    app: Flask, plan: Plan, ledger: Ledger, end: str
) -> None:
    def end_and_skip(workflow: Any, error: Exception) -> None:
        getattr(db.session, end)()
        workflow.skip()

    plan.update({"skip_if": boom, "handler": end_and_skip})
    workflow = start(AskedSecondFlow)

    for _ in range(2):
        run_job(reload(workflow).execution_history[-1].id, runs_ahead=True)

    assert states(reload(workflow)) == [("one", "completed", "success"), ("two", "skipped", "skipped")]
    assert (workflow.state, ledger(workflow)) == ("finished", ["one"])


class AskedSecondFlow(Workflow[Order]):
    """Asks its handler about errors of the condition of its second step."""

    @step
    def one(self) -> None:
        write_down(self)

    @step(skip_if=lambda workflow: planned("skip_if", workflow))
    def two(self) -> None:
        write_down(self)

    @on_exception
    def decide(self, error: Exception) -> None:
        planned("handler", self, error)


def test_the_error_and_its_cause_reach_the_handler(app: Flask, plan: Plan) -> None:
    # EXC-19
    seen: list[Any] = []

    def fail_with_a_cause(workflow: Any) -> None:
        try:
            boom()
        except Boom as cause:
            raise Other("worse") from cause

    plan["one"] = fail_with_a_cause
    plan["handler"] = lambda workflow, error: seen.extend([workflow.hero.state, workflow.current_execution.id, error])
    workflow = start(AskedFlow)
    perform_next_step(workflow, raise_errors=False)

    state, execution_id, error = seen
    assert (state, execution_id, str(error)) == ("placed", workflow.execution_history[0].id, "worse")
    assert "bang" in "".join(traceback.format_exception(error))


def test_a_handlers_reattempt_has_its_wait(app: Flask, plan: Plan) -> None:
    # EXC-20, BKO-01
    plan["wait"] = lambda workflow: 90
    workflow = start(PatientFlow)

    perform_next_step(workflow)

    first, second = workflow.execution_history
    assert first.finished_at is not None
    assert second.scheduled_for - first.finished_at == timedelta(seconds=90)
    assert first.details["reattempt_reason"] == "exception_policy"


@pytest.mark.databases("sqlite")
def test_a_handlers_reattempts_are_counted_and_end_after_a_hundred(app: Flask, plan: Plan) -> None:
    # EXC-23
    workflow = start(PatientFlow)

    speedrun(workflow, max_steps=110, raise_errors=False)

    history = workflow.execution_history
    assert (workflow.state, len(history)) == ("paused", 101)
    assert (history[-1].state, history[-1].error_class_name) == ("failed", "Boom")


def test_a_handlers_rewind_starts_over(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # EXC-24
    workflow = start(SuspendingFlow)
    plan["wait"] = lambda handled: handled.reattempt(rewind=True)

    perform_next_step(workflow)
    perform_next_step(workflow)

    assert ledger(workflow) == ["item 0", "item 0"]


@pytest.mark.databases("sqlite")
def test_a_handler_that_suspends_asks_for_a_reattempt_that_counts(app: Flask, plan: Plan, ledger: Ledger) -> None:
    workflow = start(SuspendingFlow)

    speedrun(workflow, max_steps=110, raise_errors=False)

    assert (workflow.state, len(workflow.execution_history)) == ("paused", 101)
    assert ledger(workflow) == ["item 0"]


def test_a_handler_before_the_body_may_write_to_the_workflow_it_acts_on(app: Flask, plan: Plan) -> None:
    def note(workflow: Any, error: Exception) -> None:
        workflow.details["seen"] = str(error)
        workflow.cancel()

    workflow = failing_at("condition", note)

    assert (workflow.state, workflow.details["seen"]) == ("canceled", "bang")


class ListeningFlow(Workflow[Order]):
    """Waits for a signal."""

    @step(wait_for="help")
    def one(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("place", ["body", "condition"])
@pytest.mark.parametrize("verb", ["skip", "cancel", "pause"])
def test_a_signal_that_a_handler_sends_wakes_who_waits_for_it(app: Flask, plan: Plan, place: str, verb: str) -> None:
    listener = start(ListeningFlow)
    perform_next_step(listener)
    listener_id = listener.id

    def call_for_help(workflow: Any, error: Exception) -> None:
        db.session.get_one(Workflow, listener_id).signal("help")
        getattr(workflow, verb)()

    failing_at(place, call_for_help)

    assert states(reload(listener)) == [("one", "scheduled", None)]


def test_a_handler_that_is_not_to_be_heard_of_still_pauses(app: Flask) -> None:
    # EXC-49
    workflow = start(QuietFlow)

    run = run_job(workflow.step_executions[0].id)

    assert reload(workflow).state == "paused"
    assert run.error_to_report is None


def test_a_matching_predicate_that_raises_pauses_with_the_steps_error(app: Flask) -> None:
    workflow = start(BrokenPredicateFlow)

    run = run_job(workflow.step_executions[0].id)

    (execution,) = reload(workflow).execution_history
    assert (execution.state, execution.error_class_name, workflow.state) == ("failed", "Boom", "paused")
    assert "the predicate is broken" in (execution.error_backtrace or "")
    assert isinstance(run.error_to_report, Boom)


def broken_predicate(error: Exception) -> bool:
    raise Other("the predicate is broken")


class BrokenPredicateFlow(Workflow[Order]):
    """Its policy fails itself."""

    @step(on_exception=ExceptionPolicy("skip", matching=broken_predicate, report="never"))
    def one(self) -> None:
        boom()
