"""Pending, claimed, consumed: when a signal moves on, and how often it was attached and settled."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, insert, update

from flask_geneva import Signal, Workflow, step
from flask_geneva.records.tables import step_executions
from flask_geneva.testing import assert_waiting_for_signal, perform_next_step, speedrun
from tests.engine.elsewhere import elsewhere
from tests.engine.flows import Boom, start
from tests.harness.models import Order, db, write_down
from tests.signals.flows import (
    HookedFlow,
    Ledger,
    PaidFlow,
    RetryingFlow,
    SkippingFlow,
    TwicePaidFlow,
    change_hero,
    parked,
)
from tests.signals.test_atomicity import failing_at


class OthersFlow(Workflow[Order]):
    """A step that waits between two that do not."""

    @step
    def before(self) -> None:
        write_down(self, f"before {self.received_signal}")

    @step(wait_for="paid")
    def capture(self) -> None:
        write_down(self, f"capture {self.received_signal.payload}")

    @step
    def after(self) -> None:
        write_down(self, f"after {self.received_signal}")


def counts(signal: Signal) -> tuple[str, int, int]:
    db.session.refresh(signal)
    return str(signal.state), signal.claimed, signal.consumed


def attach(workflow: Workflow[Any], signal: Signal, step_name: str, state: str, outcome: str | None = None) -> int:
    """Write another execution with the signal, as a fan-out would have; nothing of ours writes one."""
    parked_row = workflow.execution_history[0]
    columns: dict[str, Any] = {
        "workflow_id": workflow.id,
        "step_name": step_name,
        "state": state,
        "outcome": outcome,
        "signal_id": signal.id,
        "scheduled_for": parked_row.scheduled_for,
        "created_at": parked_row.created_at,
        "updated_at": parked_row.updated_at,
    }
    added = db.session.execute(insert(step_executions).values(columns))
    db.session.commit()
    return int(added.inserted_primary_key[0])


def woken(**columns: Any) -> tuple[Workflow[Any], Signal]:
    workflow = parked(**columns)
    signal = workflow.signal("paid")
    db.session.commit()
    return workflow, signal


def test_a_clean_run_claims_once_and_consumes_once(app: Flask) -> None:
    # SIG-60
    workflow, signal = woken()

    speedrun(workflow)

    assert counts(signal) == ("consumed", 1, 1)
    assert signal.claimed_at is not None
    assert signal.consumed_at is not None
    assert signal.claimed_at <= signal.consumed_at


def test_a_skip_in_the_step_consumes(app: Flask) -> None:
    # SIG-61
    workflow, signal = woken(state="skip")

    perform_next_step(workflow)

    assert (counts(signal), workflow.state) == (("consumed", 1, 1), "ready")


def test_finish_consumes(app: Flask) -> None:
    # SIG-62
    workflow, signal = woken(state="finish")

    perform_next_step(workflow)

    assert (counts(signal), workflow.state) == (("consumed", 1, 1), "finished")


def test_a_condition_that_skips_at_the_wake_consumes(app: Flask, ledger: Ledger) -> None:
    # SIG-63
    workflow, signal = woken()
    change_hero(workflow, reviewed=True)

    perform_next_step(workflow)

    assert (counts(signal), ledger(workflow)) == (("consumed", 1, 1), ["reserve"])


def test_a_policy_that_skips_consumes(app: Flask) -> None:
    # SIG-64
    workflow = parked(SkippingFlow, state="fail")
    signal = workflow.signal("paid")

    perform_next_step(workflow)

    assert (counts(signal), workflow.execution_history[-1].state) == (("consumed", 1, 1), "skipped")


def test_a_condition_that_skips_before_the_gate_leaves_buffered_signals_alone(app: Flask) -> None:
    # SIG-65
    workflow = start(PaidFlow, reviewed=True)
    signal = workflow.signal("paid")

    speedrun(workflow)

    assert (counts(signal), workflow.state) == (("pending", 0, 0), "finished")


def test_a_failure_leaves_it_claimed(app: Flask) -> None:
    # SIG-66
    workflow, signal = woken(state="fail")

    with pytest.raises(Boom):
        perform_next_step(workflow)

    assert (counts(signal), workflow.state) == (("claimed", 1, 0), "paused")


def test_the_retry_after_a_failure_has_the_same_signal(app: Flask, ledger: Ledger) -> None:
    # SIG-67, B-34
    workflow = start(PaidFlow, state="fail")
    first, second = workflow.signal("paid", 1), workflow.signal("paid", 2)
    speedrun(workflow, raise_errors=False)
    claimed_at = first.claimed_at
    change_hero(workflow, state="fine")

    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow) == ["reserve", "captured 1", "shipped with None"]
    assert (counts(first), counts(second)) == (("consumed", 2, 1), ("pending", 0, 0))
    assert first.claimed_at == claimed_at


def test_a_reattempt_reads_the_same_signal(app: Flask, ledger: Ledger) -> None:
    # SIG-68
    workflow = parked(state="reattempt")
    first = workflow.signal("paid", 1)
    perform_next_step(workflow)
    assert counts(first)[0] == "claimed"
    workflow.signal("paid", 2)

    speedrun(workflow)

    assert ledger(workflow)[1:3] == ["captured 1", "captured 1"]
    assert counts(first) == ("consumed", 2, 1)


def test_a_reattempt_by_policy_reads_the_same_signal(app: Flask, ledger: Ledger) -> None:
    # SIG-68
    workflow = parked(RetryingFlow, state="fail")
    signal = workflow.signal("paid", 1)
    perform_next_step(workflow)
    perform_next_step(workflow)
    assert counts(signal) == ("claimed", 3, 0)
    change_hero(workflow, state="fine")

    speedrun(workflow)

    assert (ledger(workflow), counts(signal)) == (["captured 1"], ("consumed", 3, 1))


@pytest.mark.parametrize(("verb", "workflow_state"), [("pause", "paused"), ("cancel", "canceled")])
def test_pause_and_cancel_in_the_step_leave_it_claimed(app: Flask, verb: str, workflow_state: str) -> None:
    # SIG-69
    workflow, signal = woken(state=verb)

    perform_next_step(workflow)

    assert (counts(signal), workflow.state) == (("claimed", 1, 0), workflow_state)
    assert workflow.execution_history[-1].signal_id == signal.id


def test_the_consumption_is_committed_with_the_steps_end(app: Flask, ledger: Ledger) -> None:
    # SIG-70
    workflow, _ = woken()

    with pytest.raises(Boom), failing_at("UPDATE geneva_signals"):
        perform_next_step(workflow)

    with elsewhere():
        seen = db.session.get_one(Workflow, workflow.id)
        assert (seen.signals[0].state, seen.signals[0].consumed) == ("claimed", 0)
        assert seen.execution_history[-1].state == "failed"
    assert ledger(workflow) == ["reserve"]


def test_both_counters_tell_what_was_and_the_state_what_is(app: Flask) -> None:
    # SIG-71
    workflow, signal = woken()
    other = attach(workflow, signal, "other", "waiting")

    perform_next_step(workflow)

    assert counts(signal) == ("claimed", 1, 1)
    assert signal.consumed_at is None
    db.session.execute(update(step_executions).where(step_executions.c.id == other).values(state="canceled"))
    db.session.commit()


def test_the_states_are_told_by_one_attribute(app: Flask) -> None:
    # SIG-72
    signal = start(PaidFlow).signal("paid")

    assert (signal.state, signal.claimed, signal.consumed) == ("pending", 0, 0)
    assert not hasattr(signal, "pending")


def test_one_signal_on_two_steps_is_consumed_when_both_are_done(app: Flask) -> None:
    # SIG-73
    workflow = parked(TwicePaidFlow)
    signal = workflow.signal("paid")
    other = attach(workflow, signal, "balance", "waiting")
    perform_next_step(workflow)
    assert (counts(signal), signal.consumed_at) == (("claimed", 1, 1), None)

    columns = step_executions.c
    db.session.execute(delete(step_executions).where(columns.state == "scheduled"))
    db.session.execute(update(step_executions).where(columns.id == other).values(state="scheduled"))
    perform_next_step(workflow)

    assert counts(signal) == ("consumed", 1, 2)
    assert signal.consumed_at is not None


@pytest.mark.parametrize(
    ("state", "signal_state"),
    [
        ("waiting", "claimed"),
        ("failed", "claimed"),
        ("canceled", "claimed"),
        ("completed", "consumed"),
        ("skipped", "consumed"),
    ],
)
def test_another_attached_step_keeps_it_claimed_until_it_ended_cleanly(
    app: Flask, state: str, signal_state: str
) -> None:
    # SIG-74
    workflow, signal = woken()
    attach(workflow, signal, "other", state)

    perform_next_step(workflow)

    assert counts(signal) == (signal_state, 1, 1)


@pytest.mark.parametrize(("last", "signal_state"), [("completed", "consumed"), ("failed", "claimed")])
def test_the_latest_attempt_at_a_step_decides(app: Flask, last: str, signal_state: str) -> None:
    # SIG-75
    workflow, signal = woken()
    attach(workflow, signal, "other", "failed" if last == "completed" else "completed", "continued")
    attach(workflow, signal, "other", last)

    perform_next_step(workflow)

    assert counts(signal)[0] == signal_state


def test_earlier_attempts_at_the_step_itself_do_not_count(app: Flask, ledger: Ledger) -> None:
    # SIG-75
    workflow, signal = woken(state="fail")
    perform_next_step(workflow, raise_errors=False)
    change_hero(workflow, state="reattempt")
    workflow.resume()

    speedrun(workflow)

    assert counts(signal) == ("consumed", 3, 1)


def test_a_signal_that_nothing_is_attached_to_is_left_alone(app: Flask) -> None:
    # SIG-76
    workflow = start(OthersFlow)
    signal = workflow.signal("unrelated")

    perform_next_step(workflow)

    assert counts(signal) == ("pending", 0, 0)


def test_two_steps_that_wait_for_one_name_need_two_signals(app: Flask, ledger: Ledger) -> None:
    # SIG-77
    workflow = parked(TwicePaidFlow)
    workflow.signal("paid", 1)
    perform_next_step(workflow)
    perform_next_step(workflow)
    assert assert_waiting_for_signal(workflow, "paid").step_name == "balance"

    workflow.signal("paid", 2)
    speedrun(workflow)

    assert ledger(workflow) == ["deposit 1", "balance 2"]


def test_the_received_signal_belongs_to_the_step_that_waited(app: Flask, ledger: Ledger) -> None:
    # SIG-78
    workflow = start(OthersFlow)
    workflow.signal("paid", 1)

    speedrun(workflow)

    assert ledger(workflow) == ["before None", "capture 1", "after None"]
    assert workflow.received_signal is None


def test_hooks_see_the_received_signal(app: Flask, ledger: Ledger) -> None:
    # SIG-78
    workflow = parked(HookedFlow)
    workflow.signal("paid", 1)

    speedrun(workflow)

    assert ledger(workflow) == ["before 1", "step 1", "after 1"]
