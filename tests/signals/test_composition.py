"""Waiting together with everything else that a step and an operator can do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, select, text

from flask_geneva import Geneva, IterableStep, Workflow, resumable_step, step
from flask_geneva.records.tables import step_executions
from flask_geneva.testing import (
    assert_signal_state,
    assert_step_executed,
    assert_waiting_for_signal,
    perform_next_step,
    perform_step,
    run_iterations,
    speedrun,
)
from tests.engine.flows import reload, run_job, start, states
from tests.harness.models import Order, db, write_down
from tests.housekeeping.workflows import ago, begin_by_hand, write_execution
from tests.signals.flows import (
    BuriedFlow,
    ChainedFlow,
    LateFlow,
    Ledger,
    PaidFlow,
    TwicePaidFlow,
    change_hero,
    park,
    parked,
)


class DeadlineBySignalFlow(Workflow[Order]):
    """Is told by a signal that it waited too long."""

    @step(wait_for="signed")
    def sign(self) -> None:
        if self.received_signal.payload.get("timed_out"):
            self.cancel()
        write_down(self)


class SelfSuspendingFlow(Workflow[Order]):
    """Suspends itself after each item."""

    @resumable_step(wait_for="paid")
    def chain(self, it: IterableStep) -> None:
        if (it.cursor or 0) < 3:
            write_down(self, f"{it.cursor} {self.received_signal.payload}")
            it.skip_to((it.cursor or 0) + 1)


def test_wait_and_wait_for_means_both(app: Flask) -> None:
    # SIG-79
    workflow = start(LateFlow)
    execution = workflow.execution_history[0]
    assert execution.scheduled_for - execution.created_at >= timedelta(days=2)

    signal = workflow.signal("paid")
    db.session.commit()
    run_job(execution.id)

    assert (reload(workflow).execution_history[0].state, signal.state) == ("scheduled", "pending")


def test_after_the_wait_the_buffered_signal_is_claimed(app: Flask, ledger: Ledger) -> None:
    # SIG-79
    workflow = start(LateFlow)
    signal = workflow.signal("paid")

    speedrun(workflow)

    assert (ledger(workflow), signal.state, len(workflow.execution_history)) == (["capture"], "consumed", 1)


def test_after_the_wait_a_step_without_a_signal_parks(app: Flask) -> None:
    # SIG-79
    workflow = parked(LateFlow)

    assert assert_waiting_for_signal(workflow, "paid").step_name == "capture"


def test_a_step_that_is_to_be_skipped_never_parks(app: Flask, ledger: Ledger) -> None:
    # SIG-80
    workflow = start(PaidFlow, reviewed=True)

    speedrun(workflow)

    assert states(workflow)[1] == ("capture", "skipped", "skipped")
    assert ledger(workflow) == ["reserve", "shipped with None"]


def test_a_step_that_is_to_be_skipped_when_it_is_woken_is_skipped(app: Flask, ledger: Ledger) -> None:
    # SIG-81
    workflow = parked()
    workflow.signal("paid")
    change_hero(workflow, reviewed=True)

    speedrun(workflow)

    assert_step_executed(workflow, "capture", "skipped")
    assert (workflow.state, ledger(workflow)) == ("finished", ["reserve", "shipped with None"])


def test_a_parked_step_does_not_notice_conditions(app: Flask) -> None:
    # SIG-82, B-44, PRE-22
    workflow = parked()

    change_hero(workflow, withdrawn=True, reviewed=True)
    run_job(workflow.execution_history[-1].id)

    assert (reload(workflow).state, workflow.execution_history[-1].state) == ("ready", "waiting")


def test_cancel_if_is_asked_when_a_signal_wakes_the_step(app: Flask) -> None:
    # SIG-82
    workflow = parked()
    change_hero(workflow, withdrawn=True)
    signal = workflow.signal("paid")

    perform_next_step(workflow)

    assert (workflow.state, workflow.execution_history[-1].state, signal.state) == ("canceled", "canceled", "claimed")


def test_a_missing_hero_is_noticed_when_a_signal_wakes_the_step(app: Flask) -> None:
    # SIG-82
    workflow = parked()
    db.session.execute(delete(Order))
    signal = workflow.signal("paid")

    perform_next_step(workflow)

    assert (workflow.state, signal.state) == ("canceled", "claimed")


def test_a_chain_waits_once_and_carries_its_signal_along(app: Flask, ledger: Ledger) -> None:
    # SIG-83
    workflow = parked(ChainedFlow)
    signal = workflow.signal("paid", 7)
    workflow.signal("paid", 8)

    for _ in range(3):
        run_iterations(workflow, 2)

    assert ledger(workflow) == [f"{number} 7" for number in range(5)]
    assert {each.signal_id for each in workflow.execution_history} == {signal.id}
    assert (signal.claimed, signal.consumed, signal.state) == (1, 1, "consumed")


def test_a_chain_that_suspends_itself_carries_its_signal_along(app: Flask, ledger: Ledger) -> None:
    # SIG-83
    workflow = parked(SelfSuspendingFlow)
    signal = workflow.signal("paid", 7)

    speedrun(workflow)

    assert ledger(workflow) == ["None 7", "1 7", "2 7"]
    assert (signal.claimed, signal.consumed, signal.state) == (1, 1, "consumed")


def test_a_chain_that_failed_in_the_middle_goes_on_with_its_signal(app: Flask, ledger: Ledger) -> None:
    # SIG-83, SIG-67
    workflow = parked(ChainedFlow)
    signal = workflow.signal("paid", 7)
    run_iterations(workflow, 1)
    change_hero(workflow, state="fail")
    perform_next_step(workflow, raise_errors=False)
    change_hero(workflow, state="fine")

    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow) == [f"{number} 7" for number in range(5)]
    assert (signal.state, signal.consumed) == ("consumed", 1)


def test_a_pause_between_wake_and_run_keeps_the_signal_for_the_resume(app: Flask, ledger: Ledger) -> None:
    # SIG-84
    workflow = parked()
    signal = workflow.signal("paid", 1)
    workflow.pause()
    db.session.commit()
    run_job(workflow.execution_history[-1].id)
    assert (reload(workflow).execution_history[-1].state, signal.state) == ("canceled", "claimed")

    workflow.resume()
    speedrun(workflow)

    assert (ledger(workflow)[1], signal.state, signal.consumed) == ("captured 1", "consumed", 1)


def test_a_signal_during_a_pause_is_delivered_by_the_resume(app: Flask, ledger: Ledger) -> None:
    # SIG-85
    workflow = parked()
    workflow.pause()
    first, second = workflow.signal("paid", 1), workflow.signal("paid", 2)

    workflow.resume()
    db.session.commit()

    assert (workflow.execution_history[-1].signal_id, first.state, second.state) == (first.id, "claimed", "pending")
    speedrun(workflow)
    assert ledger(workflow)[1] == "captured 1"


def test_a_resume_without_a_matching_signal_leaves_the_step_parked(app: Flask) -> None:
    # SIG-85
    workflow = parked()
    since = workflow.execution_history[-1].waiting_since
    workflow.pause()
    workflow.signal("other")

    workflow.resume()
    db.session.commit()

    assert assert_waiting_for_signal(workflow, "paid").waiting_since == since


def test_an_operator_skips_a_parked_step(app: Flask, ledger: Ledger) -> None:
    # SIG-86
    workflow = parked()
    signal = workflow.signal("other")

    workflow.skip()
    speedrun(workflow)

    assert_step_executed(workflow, "capture", "skipped")
    assert (ledger(workflow), signal.state) == (["reserve", "shipped with None"], "pending")


def test_an_operators_skip_of_a_woken_step_settles_its_signal(app: Flask) -> None:
    # SIG-87
    workflow = parked()
    signal = workflow.signal("paid")

    workflow.skip()
    db.session.commit()

    assert (signal.state, signal.claimed, signal.consumed) == ("consumed", 1, 1)
    assert workflow.next_step_name == "ship"


@pytest.mark.parametrize("how", ["fail", "pause"])
def test_an_operators_skip_of_a_step_that_did_not_end_well_settles_its_signal(app: Flask, how: str) -> None:
    # SIG-88, B-13
    workflow = parked(state=how)
    signal = workflow.signal("paid")
    perform_next_step(workflow, raise_errors=False)
    assert (workflow.state, signal.state) == ("paused", "claimed")

    workflow.skip()
    db.session.commit()

    assert (signal.state, signal.consumed, workflow.next_step_name) == ("consumed", 1, "ship")


def test_an_operators_skip_after_a_job_came_in_the_pause_settles_the_signal(app: Flask) -> None:
    # B-13
    workflow = parked()
    signal = workflow.signal("paid")
    workflow.pause()
    db.session.commit()
    run_job(workflow.execution_history[-1].id)

    reload(workflow).skip()
    db.session.commit()

    assert (signal.state, signal.consumed) == ("consumed", 1)


def test_a_cancel_takes_the_parked_row_along(app: Flask) -> None:
    # SIG-89
    workflow = parked()

    workflow.cancel()
    db.session.commit()

    assert states(workflow)[-1] == ("capture", "canceled", "canceled")
    assert workflow.execution_history[-1].finished_at is not None


def test_a_step_that_is_performed_past_a_parked_one_cancels_it(app: Flask, ledger: Ledger) -> None:
    # SIG-90
    workflow = parked(PaidFlow)

    perform_step(workflow, "ship")

    assert states(workflow)[1:] == [("capture", "canceled", "canceled"), ("ship", "completed", "success")]
    assert ledger(workflow) == ["reserve", "shipped with None"]


def test_a_resume_at_another_step_cancels_the_parked_row(app: Flask) -> None:
    # SIG-90, B-12
    workflow = parked(TwicePaidFlow)
    workflow.pause()

    workflow.resume_at("balance")
    db.session.commit()

    assert [(name, state) for name, state, _ in states(workflow)] == [("deposit", "canceled"), ("balance", "scheduled")]


def test_a_step_whose_worker_died_reads_its_signal_again(app: Flask, extension: Geneva, ledger: Ledger) -> None:
    # SIG-91
    workflow = parked()
    signal = workflow.signal("paid", 1)
    db.session.commit()
    begin_by_hand(workflow, job_id="nobody")

    extension.run_housekeeping()
    speedrun(reload(workflow))

    assert [outcome for _, _, outcome in states(workflow)][1:] == ["recovered", "success", "success"]
    assert (ledger(workflow)[1], signal.state, signal.consumed) == ("captured 1", "consumed", 1)


def test_a_woken_step_whose_job_was_lost_is_sent_again(
    queueing_app: Flask, extension: Geneva, redis_server: Any, burst: Any, ledger: Ledger
) -> None:
    # SIG-92
    workflow = start(PaidFlow)
    burst()
    reload(workflow).signal("paid", 1)
    db.session.commit()
    redis_server.flush()
    write_execution(workflow, scheduled_for=ago(hours=1))

    extension.run_housekeeping()
    burst()

    assert ledger(workflow)[1] == "captured 1"
    assert_signal_state(workflow, "paid", "consumed")


def test_a_gravestone_settles_the_signal_that_its_row_holds(app: Flask) -> None:
    # SIG-93
    workflow = parked(TwicePaidFlow)
    signal = workflow.signal("paid")
    db.session.commit()
    db.session.execute(text(f"UPDATE geneva_workflows SET type = '{BuriedFlow.__name__}'"))
    db.session.execute(text("UPDATE geneva_step_executions SET step_name = 'capture'"))
    db.session.commit()

    run_job(db.session.scalar(select(step_executions.c.id)))

    db.session.refresh(signal)
    assert (signal.state, signal.consumed) == ("consumed", 1)


def test_an_attempt_that_a_cancellation_forestalls_has_claimed_nothing(
    app: Flask, extension: Geneva, ledger: Ledger
) -> None:
    workflow = parked()
    signal = workflow.signal("paid", 1)
    db.session.commit()
    begin_by_hand(workflow, job_id="nobody")
    reload(workflow).cancel()
    db.session.commit()

    extension.run_housekeeping()

    assert reload(workflow).state == "canceled"
    db.session.refresh(signal)
    assert (signal.state, signal.claimed, signal.consumed) == ("claimed", 1, 0)


@pytest.mark.parametrize(("payload", "state"), [({"timed_out": True}, "canceled"), ({}, "finished")])
def test_an_application_may_send_its_own_deadline(app: Flask, payload: dict[str, Any], state: str) -> None:
    # SIG-94
    workflow = parked(DeadlineBySignalFlow)
    workflow.signal("signed", payload, idempotency_key=f"deadline-{workflow.id}")

    speedrun(workflow)

    assert workflow.state == state


def test_a_step_parks_again_when_it_is_tried_afresh_without_a_signal(app: Flask) -> None:
    workflow = parked(TwicePaidFlow)
    workflow.pause()
    workflow.resume_at("deposit")

    park(workflow)

    assert [state for _, state, _ in states(workflow)] == ["canceled", "waiting"]
