"""What operators ask of a workflow whose step is in hand takes effect when the step ends, and not before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from flask_geneva import (
    ExceptionPolicy,
    InvalidStateError,
    Workflow,
    events,
    removed_step,
    step,
)
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.records.tables import signals
from flask_geneva.testing import assert_signal_state, perform_next_step
from tests.engine.elsewhere import Ledger, Plan, all_rows, elsewhere, press, pressing, run_step
from tests.engine.flows import boom, planned, reload, run_job, start, states
from tests.harness.models import Order, db, write_down

Ending = Callable[[Any], object]


class RequestedFlow(Workflow[Order]):
    """Two steps and a gravestone at the end."""

    @step
    def one(self) -> None:
        planned("meanwhile", self)
        write_down(self)
        planned("one", self)

    @step(wait=timedelta(days=1))
    def two(self) -> None:
        planned("meanwhile", self)
        write_down(self)
        planned("one", self)

    gone = removed_step()


class RequestedSkipFlow(RequestedFlow):
    """Its first step is skipped on an error."""

    exception_policies = [ExceptionPolicy("skip")]


class RequestedRetryFlow(RequestedFlow):
    """Its first step is tried again on an error, in an hour."""

    exception_policies = [ExceptionPolicy("reattempt", wait=timedelta(hours=1))]


class RequestedCancelFlow(RequestedFlow):
    """Is canceled on an error."""

    exception_policies = [ExceptionPolicy("cancel")]


class RequestedSignalFlow(Workflow[Order]):
    """Waits for a signal."""

    @step(wait_for="go")
    def one(self) -> None:
        planned("meanwhile", self)
        planned("one", self)

    @step
    def two(self) -> None:
        write_down(self)


ENDINGS: dict[str, tuple[type[Workflow[Any]], Ending, str, str, str]] = {
    # How the step ends: its class and code, then the state and outcome of the attempt, and what would follow.
    "success": (RequestedFlow, lambda workflow: None, "completed", "success", "two"),
    "skip": (RequestedFlow, lambda workflow: workflow.skip(), "skipped", "skipped", "two"),
    "reattempt": (RequestedFlow, lambda workflow: workflow.reattempt(), "completed", "reattempted", "one"),
    "skipped error": (RequestedSkipFlow, boom, "skipped", "skipped", "two"),
    "reattempted error": (RequestedRetryFlow, boom, "completed", "reattempted", "one"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_pause_lets_the_step_end_as_it_ends_and_keeps_what_follows(
    jobs: list[JobRequest], plan: Plan, ledger: Ledger, ending: str
) -> None:
    # B-06
    workflow_class, code, state, outcome, follows = ENDINGS[ending]
    plan.update({"meanwhile": pressing("pause"), "one": code})
    workflow = start(workflow_class)
    del jobs[:]

    run_step(workflow)

    assert states(workflow) == [("one", state, outcome), (follows, "scheduled", None)]
    assert (workflow.state, workflow.next_step_name, workflow.current_step_name) == ("paused", follows, None)
    assert (workflow.pending_request, jobs) == (None, [])
    assert workflow.transitioned_at is not None
    assert ledger(workflow) == ([] if "error" in ending else ["one"])
    kept = workflow.execution_history[-1]

    workflow.resume()
    db.session.commit()

    assert [job.execution_id for job in jobs] == [kept.id]
    is_due_later = ending == "reattempted error" or follows == "two"
    assert (jobs[0].due == kept.scheduled_for) == is_due_later


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_cancel_keeps_the_steps_ending_and_writes_and_schedules_nothing(
    jobs: list[JobRequest], plan: Plan, ledger: Ledger, ending: str
) -> None:
    # B-06
    workflow_class, code, state, outcome, _ = ENDINGS[ending]
    plan.update({"meanwhile": pressing("cancel"), "one": code})
    workflow = start(workflow_class)
    del jobs[:]

    run_step(workflow)

    assert states(workflow) == [("one", state, outcome)]
    assert (workflow.state, workflow.current_step_name, workflow.pending_request) == ("canceled", None, None)
    assert workflow.transitioned_at is not None
    assert ledger(workflow) == ([] if "error" in ending else ["one"])
    assert jobs == []


@pytest.mark.parametrize(
    ("workflow_class", "code", "state", "outcome", "paused", "canceled"),
    [
        (RequestedFlow, boom, "failed", "failed", "paused", "canceled"),
        (RequestedCancelFlow, boom, "failed", "canceled", "canceled", "canceled"),
        (RequestedFlow, lambda workflow: workflow.pause(), "canceled", "canceled", "paused", "canceled"),
        (RequestedFlow, lambda workflow: workflow.cancel(), "canceled", "canceled", "canceled", "canceled"),
        (RequestedFlow, lambda workflow: workflow.finish(), "completed", "success", "finished", "canceled"),
    ],
)
@pytest.mark.parametrize("request_for", ["pause", "cancel"])
def test_an_ending_that_stops_the_workflow_meets_a_request(
    app: Flask,
    plan: Plan,
    request_for: str,
    workflow_class: type[Workflow[Any]],
    code: Ending,
    state: str,
    outcome: str,
    paused: str,
    canceled: str,
) -> None:
    plan.update({"meanwhile": pressing(request_for), "one": code})
    workflow = start(workflow_class)

    run_step(workflow)

    assert states(workflow) == [("one", state, outcome)]
    assert workflow.state == (paused if request_for == "pause" else canceled)
    assert workflow.pending_request is None


def at_the_last_step() -> Workflow[Any]:
    workflow = start(RequestedFlow)
    workflow.skip()
    db.session.commit()
    return workflow


def test_a_pause_during_the_last_step_finishes(app: Flask, plan: Plan, ledger: Ledger) -> None:
    plan["meanwhile"] = pressing("pause")
    workflow = at_the_last_step()

    run_step(workflow)

    assert (workflow.state, workflow.pending_request, workflow.next_step_name) == ("finished", None, None)
    assert ledger(workflow) == ["two"]


def test_a_cancel_during_the_last_step_cancels(app: Flask, plan: Plan, ledger: Ledger) -> None:
    plan["meanwhile"] = pressing("cancel")
    workflow = at_the_last_step()

    run_step(workflow)

    assert (workflow.state, workflow.pending_request) == ("canceled", None)
    assert states(workflow)[-1] == ("two", "completed", "success")
    assert ledger(workflow) == ["two"]


@pytest.mark.parametrize("request_for", ["pause", "cancel"])
def test_pressing_twice_changes_nothing_more(app: Flask, plan: Plan, request_for: str) -> None:
    seen: list[Any] = []

    def press_twice(running: Any) -> None:
        for _ in range(2):
            press(running.id, request_for)
            with elsewhere():
                seen.append(all_rows())

    plan["meanwhile"] = press_twice
    run_step(start(RequestedFlow))

    assert seen[0] == seen[1]


def test_a_pause_can_be_withdrawn_until_the_step_ends(app: Flask, plan: Plan, ledger: Ledger) -> None:
    plan["meanwhile"] = pressing("pause", "resume")
    workflow = start(RequestedFlow)

    run_step(workflow)

    assert (workflow.state, workflow.pending_request) == ("finished", None)
    assert ledger(workflow) == ["one", "two"]


@pytest.mark.parametrize("verbs", [("pause", "cancel"), ("cancel", "pause"), ("pause", "resume", "cancel", "pause")])
def test_a_cancel_beats_a_pause_whichever_came_first(app: Flask, plan: Plan, verbs: tuple[str, ...]) -> None:
    plan["meanwhile"] = pressing(*verbs)
    workflow = start(RequestedFlow)

    run_step(workflow)

    assert (workflow.state, states(workflow)) == ("canceled", [("one", "completed", "success")])


@pytest.mark.parametrize(
    ("pressed", "verb", "why"),
    [
        ((), "resume", "the workflow is performing. "),
        (("cancel",), "resume", "the workflow is performing and a cancel is pending. "),
        (("pause", "cancel"), "resume", "the workflow is performing and a cancel is pending. "),
        (("pause",), "skip", "the workflow is performing and a pause is pending. "),
        (("pause",), "resume_at", "the workflow is performing and a pause is pending. "),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_nothing_written(
    app: Flask, plan: Plan, pressed: tuple[str, ...], verb: str, why: str
) -> None:
    told: list[str] = []

    def press_wrongly(running: Any) -> None:
        pressing(*pressed)(running)
        with elsewhere():
            before = all_rows()
            with pytest.raises(InvalidStateError) as refusal:
                press(running.id, verb, *(["two"] if verb == "resume_at" else []))
            told.append(str(refusal.value))
            assert all_rows() == before

    plan["meanwhile"] = press_wrongly
    workflow = start(RequestedFlow)
    run_step(workflow)

    assert told[0].startswith(f"Cannot {verb} RequestedFlow #{workflow.id}: {why}")


def test_while_the_step_runs_the_request_is_stored_and_the_state_unchanged(app: Flask, plan: Plan) -> None:
    seen: list[Any] = []

    def look(running: Any) -> None:
        press(running.id, "pause")
        with elsewhere():
            theirs = db.session.get_one(Workflow, running.id)
            seen.extend([theirs.state, theirs.pending_request, theirs.current_step_name, theirs.explain()])

    plan["meanwhile"] = look
    run_step(start(RequestedFlow))

    assert seen[:3] == ["performing", "pause", "one"]
    assert "a pause was asked for" in seen[3]


@pytest.mark.parametrize("request_for", ["pause", "cancel"])
def test_a_request_that_was_rolled_back_was_never_made(app: Flask, plan: Plan, request_for: str) -> None:
    def think_again(running: Any) -> None:
        with elsewhere():
            getattr(db.session.get_one(Workflow, running.id), request_for)()
            db.session.rollback()

    plan["meanwhile"] = think_again
    workflow = start(RequestedFlow)

    run_step(workflow)

    assert workflow.state == "finished"


def test_a_signal_that_comes_after_a_pause_request_is_buffered(app: Flask, plan: Plan, ledger: Ledger) -> None:
    def press_and_send(running: Any) -> None:
        press(running.id, "pause")
        with elsewhere():
            db.session.get_one(Workflow, running.id).signal("later")
            db.session.commit()

    plan["meanwhile"] = press_and_send
    workflow = start(RequestedSignalFlow)
    workflow.signal("go")
    db.session.commit()

    run_step(workflow)

    assert workflow.state == "paused"
    assert_signal_state(workflow, "go", "consumed")
    assert_signal_state(workflow, "later", "pending")


@pytest.mark.parametrize(("code", "state"), [(None, "consumed"), (boom, "claimed")])
def test_a_canceled_steps_signal_is_settled_only_by_a_clean_ending(
    app: Flask, plan: Plan, code: Ending | None, state: str
) -> None:
    plan["meanwhile"] = pressing("cancel")
    if code is not None:
        plan["one"] = code
    workflow = start(RequestedSignalFlow)
    workflow.signal("go")
    db.session.commit()

    run_step(workflow)

    assert workflow.state == "canceled"
    assert db.session.scalar(select(signals.c.state)) == state


@pytest.mark.parametrize(
    ("request_for", "event"), [("pause", events.workflow_paused), ("cancel", events.workflow_canceled)]
)
def test_the_stop_is_told_of_when_it_comes(app: Flask, plan: Plan, request_for: str, event: Any) -> None:
    told: list[int] = []

    def listen(sender: Flask, **facts: Any) -> None:
        told.append(facts["workflow_id"])

    def press_and_look(running: Any) -> None:
        press(running.id, request_for)
        assert told == []

    plan["meanwhile"] = press_and_look
    workflow = start(RequestedFlow)
    with event.connected_to(listen):
        run_step(workflow)

    assert told == [workflow.id]


def test_what_is_asked_for_from_the_step_itself_ends_the_step(app: Flask, plan: Plan, ledger: Ledger) -> None:
    plan["one"] = lambda workflow: db.session.get_one(Workflow, workflow.id).cancel()
    workflow = start(RequestedFlow)

    perform_next_step(workflow)

    assert (workflow.state, states(workflow)) == ("canceled", [("one", "canceled", "canceled")])


def test_a_pause_that_comes_to_a_ready_workflow_just_before_its_job_wins(app: Flask, ledger: Ledger) -> None:
    workflow = start(RequestedFlow)
    execution_id = workflow.execution_history[0].id
    press(workflow.id, "pause")

    run_job(execution_id)

    assert (reload(workflow).state, ledger(workflow)) == ("paused", [])
