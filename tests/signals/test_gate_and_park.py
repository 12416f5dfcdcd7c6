"""The receiver's side: a step takes the signal that has come already, or parks."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from flask_geneva import SignalMatcher, Workflow, step
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.records.tables import signals
from flask_geneva.testing import (
    assert_signal_state,
    assert_waiting_for_signal,
    perform_next_step,
    speedrun,
)
from tests.engine.elsewhere import nothing_written
from tests.engine.flows import reload, run_job, start, states
from tests.harness.counting import Traffic
from tests.harness.models import Order, db, write_down
from tests.signals.flows import Ledger, PaidFlow, TwicePaidFlow, change_hero, park, parked

Counting = Callable[[], AbstractContextManager[Traffic]]


class StrictFlow(Workflow[Order]):
    """Its matcher needs a key that a payload may lack."""

    @step(wait_for=SignalMatcher("paid", lambda workflow, payload: payload["cents"] > 0))
    def capture(self) -> None:
        write_down(self)


class ForgivingFlow(Workflow[Order]):
    """The same, and errors are skipped."""

    @step(wait_for=SignalMatcher("paid", lambda workflow, payload: payload["cents"] > 0), on_exception="skip")
    def capture(self) -> None:
        write_down(self)


def test_a_signal_that_comes_early_is_claimed_when_its_step_comes(app: Flask, ledger: Ledger) -> None:
    # SIG-33
    workflow = start(PaidFlow)
    workflow.signal("paid", {"n": 1})
    perform_next_step(workflow)
    assert_signal_state(workflow, "paid", "pending")

    speedrun(workflow)

    assert ledger(workflow) == ["reserve", "captured {'n': 1}", "shipped with None"]
    assert (workflow.state, assert_signal_state(workflow, "paid", "consumed").claimed) == ("finished", 1)
    assert "waiting" not in [state for _, state, _ in states(workflow)]


def test_the_oldest_match_comes_first(app: Flask, ledger: Ledger) -> None:
    # SIG-34
    workflow = start(TwicePaidFlow)
    for name, number in [("other", 0), ("paid", 1), ("paid", 2)]:
        workflow.signal(name, number)

    speedrun(workflow)

    assert ledger(workflow) == ["deposit 1", "balance 2"]
    assert_signal_state(workflow, "other", "pending")


def test_a_signal_that_another_step_has_claimed_is_not_eligible(app: Flask) -> None:
    # SIG-35: unlike the reference, where a step might inherit what another has not finished with.
    workflow = parked(TwicePaidFlow, state="fail")
    workflow.signal("paid", 1)
    perform_next_step(workflow, raise_errors=False)
    workflow.resume_at("balance")

    perform_next_step(workflow)

    assert_waiting_for_signal(workflow)
    assert_signal_state(workflow, "paid", "claimed")


def test_a_step_that_is_reached_again_takes_the_signal_that_it_holds(app: Flask, ledger: Ledger) -> None:
    # SIG-35: an older one that is pending must not come between a step and the event that it did not finish with.
    workflow = start(PaidFlow, state="fail")
    workflow.signal("paid", "held")
    workflow.signal("paid", "pending")
    speedrun(workflow, raise_errors=False)
    change_hero(workflow, state="fine")

    workflow.resume_at("reserve")
    speedrun(workflow)

    assert ledger(workflow) == ["reserve", "reserve", "captured held", "shipped with None"]
    held, pending = workflow.signals
    assert (held.claimed, held.consumed, pending.state) == (2, 1, "pending")


def test_a_step_that_is_begun_anew_holds_the_last_signal_that_it_has_not_finished_with(
    app: Flask, ledger: Ledger
) -> None:
    workflow = parked(TwicePaidFlow)
    first = workflow.signal("paid", "first")
    perform_next_step(workflow)
    workflow.pause()

    workflow.resume_at("deposit")
    park(workflow)
    second = workflow.signal("paid", "second")
    change_hero(workflow, state="fail")
    perform_next_step(workflow, raise_errors=False)
    third = workflow.signal("paid", "third")
    change_hero(workflow, state="fine")
    workflow.resume_at("deposit")
    perform_next_step(workflow)

    assert ledger(workflow) == ["deposit first", "deposit second"]
    found = [(each.state, each.claimed, each.consumed) for each in (first, second, third)]
    assert found == [("consumed", 1, 1), ("consumed", 2, 1), ("pending", 0, 0)]


def test_the_gate_attaches(app: Flask) -> None:
    # SIG-36
    workflow = start(PaidFlow, state="fail")
    signal = workflow.signal("paid")
    perform_next_step(workflow)
    perform_next_step(workflow, raise_errors=False)

    execution = workflow.execution_history[-1]

    assert (execution.signal_id, signal.state, signal.claimed) == (signal.id, "claimed", 1)
    assert signal.claimed_at is not None
    assert signal.consumed_at is None


def test_an_execution_with_a_signal_looks_for_no_other(app: Flask, counting: Counting, ledger: Ledger) -> None:
    # SIG-37
    workflow = parked(StrictFlow)
    signal = workflow.signal("paid", {"cents": 1})
    db.session.execute(update(signals).values(payload={"cents": -1}))
    db.session.commit()

    speedrun(workflow)

    assert (ledger(workflow), signal.state) == (["capture"], "consumed")


def test_a_matcher_that_raises_at_the_gate_is_an_error_of_the_step(app: Flask, ledger: Ledger) -> None:
    # SIG-38
    workflow = start(StrictFlow)
    signal = workflow.signal("paid", {"no cents": 5})

    with pytest.raises(KeyError):
        perform_next_step(workflow)

    failed = workflow.execution_history[-1]
    assert (states(workflow), workflow.state) == ([("capture", "failed", "failed")], "paused")
    assert (failed.error_class_name, failed.signal_id, signal.state) == ("KeyError", None, "pending")
    assert ledger(workflow) == []


def test_a_matcher_that_raises_at_the_gate_goes_through_the_policy(app: Flask) -> None:
    # SIG-38
    workflow = start(ForgivingFlow)
    signal = workflow.signal("paid", {"no cents": 5})

    perform_next_step(workflow)

    assert (states(workflow), workflow.state) == ([("capture", "skipped", "skipped")], "finished")
    assert signal.state == "pending"


def test_without_a_match_the_step_parks(jobs: list[JobRequest], ledger: Ledger) -> None:
    # SIG-39
    workflow = start(PaidFlow)
    workflow.signal("other")
    perform_next_step(workflow)
    jobs.clear()

    perform_next_step(workflow)

    parked_on = assert_waiting_for_signal(workflow, "paid")
    assert (parked_on.step_name, parked_on.signal_id, parked_on.outcome) == ("capture", None, None)
    assert parked_on.waiting_since is not None
    assert (workflow.state, workflow.current_step_name) == ("ready", None)
    assert (ledger(workflow), jobs) == (["reserve"], [])


def test_the_first_step_may_wait(app: Flask, ledger: Ledger) -> None:
    # SIG-40
    workflow = start(TwicePaidFlow)
    perform_next_step(workflow)
    assert_waiting_for_signal(workflow, "paid")

    workflow.signal("paid", 1)
    perform_next_step(workflow)

    assert ledger(workflow) == ["deposit 1"]


def test_a_job_for_a_parked_execution_does_nothing(jobs: list[JobRequest]) -> None:
    # SIG-41
    workflow = parked()
    jobs.clear()

    with nothing_written():
        run_job(workflow.execution_history[-1].id)

    assert jobs == []


def test_a_parked_execution_is_the_current_one(app: Flask) -> None:
    # SIG-42
    workflow = parked()

    current = workflow.current_execution

    assert current is not None
    assert (current.step_name, current.state, current.is_open) == ("capture", "waiting", True)


def test_the_parked_step_is_the_next_one(app: Flask) -> None:
    # SIG-43
    workflow = reload(parked())

    assert (workflow.next_step_name, workflow.previous_step_name) == ("capture", "reserve")
    told = re.sub(r"\d+ seconds?", "a moment", workflow.explain())
    assert told == "parked on capture since a moment, waiting for signal 'paid'"


def test_parking_takes_no_more_than_a_step_does(app: Flask, counting: Counting, database_kind: str) -> None:
    # Waiting holds nothing: one transaction, and neither a job nor a timer is left behind.
    workflow = start(TwicePaidFlow)
    execution_id: Any = workflow.execution_history[0].id
    db.session.rollback()

    with counting() as traffic:
        run_job(execution_id)

    assert traffic.commits == 1
    assert traffic.statements <= (5 if database_kind in ("mariadb", "mysql") else 4)
