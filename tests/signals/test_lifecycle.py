"""A signal's life: stored, buffered or met, claimed, consumed, whoever comes first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, select, text

from flask_geneva import (
    InvalidSignal,
    IterableStep,
    PayloadNotSerializable,
    Signal,
    SignalMatcher,
    SignalPayloadTooLarge,
    Workflow,
    WorkflowNotOngoing,
    cancel_if,
    resumable_step,
    step,
)
from flask_geneva.testing import (
    WaitingForSignal,
    assert_signal_state,
    assert_step_executed,
    assert_waiting_for_signal,
    expire_wait,
    perform_next_step,
    run_iterations,
    speedrun,
)
from tests.engine.flows import boom, reload, start, states
from tests.harness.models import Order, db, write_down

Ledger = Callable[[Any], list[str]]


class EitherWay:
    """A matcher of one's own."""

    def matches(self, signal: Any) -> bool:
        if signal.name == "explode":
            boom()
        return signal.name in ("paid", "captured") and signal.payload.get("cents", 0) >= 100


class PaidFlow(Workflow[Order]):
    """Reserve, wait for the money, ship; its hero's state says what goes wrong."""

    @cancel_if
    def is_withdrawn(self) -> bool:
        return self.hero.withdrawn

    @step
    def reserve(self) -> None:
        write_down(self)

    @step(wait_for="paid", skip_if=lambda workflow: workflow.hero.reviewed)
    def capture(self) -> None:
        write_down(self, f"captured {self.received_signal.payload}")
        if self.hero.state in ("skip", "finish", "pause", "cancel", "reattempt"):
            state, self.hero.state = self.hero.state, "done"
            getattr(self, state)()
        if self.hero.state == "fail":
            boom()

    @step
    def ship(self) -> None:
        write_down(self, f"shipped with {self.received_signal}")


class MatchedFlow(Workflow[Order]):
    """Waits for what its matchers accept."""

    @step(wait_for=SignalMatcher("paid", lambda workflow, payload: payload["cents"] == workflow.hero.amount))
    def exact(self) -> None:
        write_down(self)

    @step(wait_for=EitherWay())
    def either(self) -> None:
        write_down(self, self.received_signal.name)

    @step(wait_for=["a", "b"])
    def any_of(self) -> None:
        write_down(self, self.received_signal.name)


class LateFlow(Workflow[Order]):
    """Waits for time and then for a signal."""

    @step(wait=timedelta(days=2), wait_for="paid")
    def capture(self) -> None:
        write_down(self)


class ChainFlow(Workflow[Order]):
    """A resumable step that needs a signal once."""

    @resumable_step(wait_for="go", max_iterations=2)
    def chain(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(5)):
            write_down(self, f"{number} {self.received_signal.payload['n']}")


class DeadlineFlow(Workflow[Order]):
    """Waits no longer than a day."""

    on_deadline_of_it = "pause"

    @step(wait_for="paid", deadline=timedelta(days=1))
    def pausing(self) -> None:
        write_down(self)

    @step(wait_for="paid", deadline=timedelta(days=1), on_deadline="skip")
    def skipping(self) -> None:
        write_down(self)

    @step(wait_for="paid", deadline=timedelta(days=1), on_deadline="run")
    def running(self) -> None:
        write_down(self, f"ran with {self.received_signal}")

    @step(wait_for="paid", deadline=timedelta(days=1), on_deadline="cancel")
    def canceling(self) -> None:
        write_down(self)


def parked(workflow_class: type[Workflow[Any]] = PaidFlow, **columns: Any) -> Workflow[Any]:
    workflow = start(workflow_class, **columns)
    with pytest.raises(WaitingForSignal):
        speedrun(workflow)
    return workflow


def test_a_signal_is_a_row(app: Flask) -> None:
    # SIG-01, SIG-08, SIG-47, SIG-71, SIG-72
    workflow = start(PaidFlow)

    signal = workflow.signal("paid")
    none = workflow.signal("nothing", None)

    assert (signal.name, signal.state, signal.payload, none.payload) == ("paid", "pending", {}, None)
    assert (signal.claimed, signal.consumed, signal.claimed_at, signal.consumed_at) == (0, 0, None, None)
    assert (signal.workflow_id, signal.duplicate_delivery) == (workflow.id, False)


@pytest.mark.parametrize(("name", "key"), [("", None), ("x" * 256, None), ("paid", "k" * 256), (7, None), ("paid", 42)])
def test_a_name_or_key_that_cannot_be_stored_is_refused(app: Flask, name: Any, key: Any) -> None:
    # SIG-02, SIG-04
    workflow = start(PaidFlow)

    with pytest.raises(InvalidSignal):
        workflow.signal(name, idempotency_key=key)

    assert db.session.scalars(select(Signal)).all() == []


def test_names_and_keys_compare_exactly_and_to_their_last_character(app: Flask) -> None:
    # SIG-15, SIG-16
    workflow = start(PaidFlow)

    for name, key in [
        ("paid", "k"),
        ("Paid", "k"),
        ("paid", "K"),
        ("paid", "k "),
        ("paid", "k" * 255),
        ("n" * 255, "k"),
    ]:
        assert not workflow.signal(name, idempotency_key=key).duplicate_delivery
    assert workflow.signal("paid", idempotency_key="k" * 255).duplicate_delivery
    assert not workflow.signal("paid").duplicate_delivery
    assert not workflow.signal("paid").duplicate_delivery


def test_a_second_delivery_is_the_first_row_flagged_and_wakes_nobody(
    app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    # SIG-13, SIG-14, SIG-17, SIG-18
    workflow = parked()
    first = workflow.signal("paid", {"n": 1}, idempotency_key="once")
    again = workflow.signal("paid", {"n": 2}, idempotency_key="once")

    assert (again.id, again.payload) == (first.id, {"n": 1})
    assert (first.duplicate_delivery, again.duplicate_delivery) == (False, True)
    assert "another payload" in caplog.text
    db.session.commit()
    assert len(workflow.signals) == 1
    assert first.claimed == 1


def test_an_ended_workflow_takes_only_what_it_knows(app: Flask) -> None:
    # SIG-19 to SIG-22, SIG-25
    workflow = start(PaidFlow)
    workflow.signal("paid", idempotency_key="known")
    speedrun(workflow)

    assert workflow.signal("paid", idempotency_key="known").duplicate_delivery
    with pytest.raises(WorkflowNotOngoing, match="the workflow is finished"):
        workflow.signal("paid", idempotency_key="new")
    assert len(workflow.signals) == 1


def test_a_payload_above_the_limit_or_of_a_strange_kind_stores_nothing(app: Flask) -> None:
    # SIG-09 to SIG-11
    workflow = start(PaidFlow)

    with pytest.raises(SignalPayloadTooLarge, match="GENEVA_MAX_SIGNAL_PAYLOAD_SIZE"):
        workflow.signal("paid", "x" * 131_071)
    with pytest.raises(PayloadNotSerializable, match="object"):
        workflow.signal("paid", {"it": object()})

    workflow.signal("paid", "x" * 131_070)
    assert len(workflow.signals) == 1


def test_records_come_back_as_records(app: Flask) -> None:
    # SIG-05 to SIG-07
    workflow = start(PaidFlow)
    order = Order(state="payload")
    db.session.add(order)
    db.session.flush()

    signal = workflow.signal("paid", {"order": order, "after": timedelta(days=1)})
    db.session.commit()

    assert signal.payload == {"order": order, "after": timedelta(days=1)}


def test_a_signal_to_a_row_of_a_vanished_class_is_kept(app: Flask) -> None:
    # SIG-26
    workflow_id = parked().id
    db.session.execute(text("UPDATE geneva_workflows SET type = 'Vanished'"))
    db.session.commit()
    db.session.expunge_all()
    workflow = db.session.get_one(Workflow, workflow_id)

    signal = workflow.signal("paid")

    assert signal.state == "pending"
    assert workflow.execution_history[-1].state == "waiting"


def test_a_matcher_that_raises_while_sending_leaves_nothing_behind(app: Flask) -> None:
    # SIG-27, SIG-28, SIG-32
    workflow = start(MatchedFlow, amount=5)
    workflow.signal("paid", {"cents": 5})
    perform_next_step(workflow)
    perform_next_step(workflow)
    before = states(workflow)

    with pytest.raises(Exception, match="bang"):
        workflow.signal("explode")
    db.session.commit()

    assert [signal.name for signal in workflow.signals] == ["paid"]
    assert states(workflow) == before


def test_a_rollback_of_the_sender_undoes_all(app: Flask) -> None:
    # SIG-29, SIG-30, SIG-31
    workflow = parked()

    workflow.signal("paid")
    assert workflow.execution_history[-1].state == "scheduled"
    db.session.rollback()

    waiting = workflow.execution_history[-1]
    assert (waiting.state, waiting.signal_id) == ("waiting", None)
    assert waiting.waiting_since is not None
    assert workflow.signals == []


def test_an_early_signal_is_claimed_when_its_step_comes(app: Flask, ledger: Ledger) -> None:
    # SIG-33 to SIG-36, SIG-60, SIG-70, SIG-78
    workflow = start(PaidFlow)
    workflow.signal("paid", {"n": 1})
    workflow.signal("paid", {"n": 2})

    speedrun(workflow)

    assert ledger(workflow) == ["reserve", "captured {'n': 1}", "shipped with None"]
    first, second = workflow.signals
    assert (first.state, first.claimed, first.consumed) == ("consumed", 1, 1)
    assert None not in (first.claimed_at, first.consumed_at)
    assert (second.state, second.claimed) == ("pending", 0)


def test_a_late_signal_wakes_the_parked_step(app: Flask, ledger: Ledger) -> None:
    # SIG-39, SIG-40, SIG-42 to SIG-46, SIG-49
    workflow = parked()
    waiting = assert_waiting_for_signal(workflow, "paid")
    assert (workflow.state, workflow.next_step_name, waiting.signal_id) == ("ready", "capture", None)

    workflow.signal("other")
    assert_waiting_for_signal(workflow)
    signal = workflow.signal("paid", {"n": 1})
    woken = workflow.current_execution
    assert woken is not None
    assert (woken.state, woken.signal_id, woken.waiting_since, signal.state) == (
        "scheduled",
        signal.id,
        None,
        "claimed",
    )
    speedrun(workflow)

    assert ledger(workflow)[1] == "captured {'n': 1}"
    assert_signal_state(workflow, "paid", "consumed")


@pytest.mark.parametrize(
    ("ending", "state", "workflow_state"),
    [
        ("skip", "consumed", "ready"),
        ("finish", "consumed", "finished"),
        ("pause", "claimed", "paused"),
        ("cancel", "claimed", "canceled"),
        ("reattempt", "claimed", "ready"),
        ("fail", "claimed", "paused"),
    ],
)
def test_how_the_step_ends_decides_about_its_signal(app: Flask, ending: str, state: str, workflow_state: str) -> None:
    # SIG-61, SIG-62, SIG-64, SIG-66, SIG-68, SIG-69
    workflow = parked(state=ending)
    workflow.signal("paid")

    perform_next_step(workflow, raise_errors=False)

    assert workflow.state == workflow_state
    assert_signal_state(workflow, "paid", state)


def test_the_retry_reads_the_same_signal_even_when_an_older_one_waits(app: Flask, ledger: Ledger) -> None:
    # SIG-67, SIG-37, B-34
    workflow = parked(state="fail")
    workflow.signal("paid", {"n": 1})
    perform_next_step(workflow, raise_errors=False)
    workflow.signal("paid", {"n": 2})
    workflow.hero.state = "fine"

    workflow.resume()
    perform_next_step(workflow)

    assert ledger(workflow)[-1] == "captured {'n': 1}"
    first, second = workflow.signals
    assert (first.claimed, first.consumed, first.state, second.state) == (2, 1, "consumed", "pending")


def test_matchers_look_at_payload_hero_and_name(app: Flask, ledger: Ledger) -> None:
    # SIG-52 to SIG-59
    workflow = parked(MatchedFlow, amount=5)
    workflow.signal("paid", {"cents": 6})
    assert_waiting_for_signal(workflow)
    workflow.signal("paid", {"cents": 5})
    perform_next_step(workflow)
    workflow.signal("captured", {"cents": 99})
    perform_next_step(workflow)
    assert_waiting_for_signal(workflow)
    workflow.signal("captured", {"cents": 100})
    perform_next_step(workflow)
    workflow.signal("b")
    speedrun(workflow)

    assert ledger(workflow) == ["exact", "captured", "b"]


def test_a_matcher_that_raises_at_the_gate_is_an_error_of_the_step(app: Flask) -> None:
    # SIG-38
    workflow = start(MatchedFlow, amount=5)
    workflow.signal("paid", {"no cents": 5})

    with pytest.raises(KeyError):
        perform_next_step(workflow)

    assert (states(workflow), workflow.state) == ([("exact", "failed", "failed")], "paused")
    assert_signal_state(workflow, "paid", "pending")


def test_wait_and_wait_for_means_both(app: Flask) -> None:
    # SIG-79
    workflow = start(LateFlow)
    workflow.signal("paid")

    execution = workflow.execution_history[0]
    assert execution.scheduled_for - execution.created_at > timedelta(days=1)
    assert_signal_state(workflow, "paid", "pending")
    speedrun(workflow)
    assert_signal_state(workflow, "paid", "consumed")


def test_skip_if_beats_waiting_and_settles_what_woke_the_step(app: Flask) -> None:
    # SIG-63, SIG-65, SIG-80, SIG-81
    early = start(PaidFlow, reviewed=True)
    early.signal("paid")
    speedrun(early)
    assert_signal_state(early, "paid", "pending")
    assert_step_executed(early, "capture", "skipped")

    woken = parked()
    woken.signal("paid")
    woken.hero.reviewed = True
    speedrun(woken)
    assert_signal_state(woken, "paid", "consumed")
    assert_step_executed(woken, "capture", "skipped")


def test_cancel_if_and_a_missing_hero_are_noticed_at_the_wake(app: Flask) -> None:
    # SIG-82, PRE-22, B-44
    withdrawn = parked()
    withdrawn.hero.withdrawn = True
    db.session.commit()
    assert withdrawn.state == "ready"
    withdrawn.signal("paid")
    perform_next_step(withdrawn)
    assert withdrawn.state == "canceled"

    orphan = parked()
    db.session.execute(delete(Order))
    db.session.commit()
    orphan.signal("paid")
    perform_next_step(orphan)
    assert orphan.state == "canceled"


def test_a_resumable_chain_carries_its_signal_along(app: Flask, ledger: Ledger) -> None:
    # SIG-83, RES-40
    workflow = parked(ChainFlow)
    workflow.signal("go", {"n": 7})

    for _ in range(3):
        run_iterations(workflow, 2)

    assert ledger(workflow) == [f"{number} 7" for number in range(5)]
    (signal,) = workflow.signals
    assert (signal.claimed, signal.consumed, signal.state) == (1, 1, "consumed")


def test_a_pause_between_wake_and_run_keeps_the_signal_for_the_resume(app: Flask, ledger: Ledger) -> None:
    # SIG-84, OPS-23
    from tests.engine.flows import run_job

    workflow = parked()
    workflow.signal("paid", {"n": 1})
    workflow.pause()
    db.session.commit()
    run_job(workflow.execution_history[-1].id)
    assert reload(workflow).execution_history[-1].state == "canceled"
    assert_signal_state(workflow, "paid", "claimed")

    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow)[1] == "captured {'n': 1}"
    assert_signal_state(workflow, "paid", "consumed")


def test_deadlines_end_a_wait_in_four_ways(app: Flask, ledger: Ledger) -> None:
    workflow = parked(DeadlineFlow)
    expire_wait(workflow)
    perform_next_step(workflow, raise_errors=False)
    failed = workflow.execution_history[-1]
    assert (failed.state, failed.outcome, failed.error_class_name) == ("failed", "failed", "DeadlineExceeded")
    assert workflow.state == "paused"

    workflow.signal("paid")
    workflow.resume()
    perform_next_step(workflow)
    perform_next_step(workflow)
    expire_wait(workflow)
    perform_next_step(workflow)
    assert_step_executed(workflow, "skipping", "skipped")

    perform_next_step(workflow)
    expire_wait(workflow)
    perform_next_step(workflow)
    assert ledger(workflow) == ["pausing", "ran with None"]

    perform_next_step(workflow)
    expire_wait(workflow)
    perform_next_step(workflow)
    last = workflow.execution_history[-1]
    assert (last.state, last.outcome, workflow.state) == ("canceled", "canceled", "canceled")


def test_a_resume_after_a_missed_deadline_waits_a_whole_one_again(app: Flask) -> None:
    workflow = parked(DeadlineFlow)
    expire_wait(workflow)
    perform_next_step(workflow, raise_errors=False)

    workflow.resume()
    perform_next_step(workflow)

    waiting = assert_waiting_for_signal(workflow)
    assert waiting.deadline_at is not None
    assert waiting.waiting_since is not None
    assert waiting.deadline_at - waiting.waiting_since == timedelta(days=1)


def test_a_deadline_that_passed_during_a_pause_comes_after_a_signal_that_did(app: Flask, ledger: Ledger) -> None:
    signalled, silent = parked(DeadlineFlow), parked(DeadlineFlow)
    for workflow in (signalled, silent):
        workflow.pause()
    db.session.execute(text("UPDATE geneva_step_executions SET deadline_at = '2020-01-01 00:00:00'"))
    signalled.signal("paid")

    signalled.resume()
    silent.resume()

    perform_next_step(signalled)
    assert ledger(signalled) == ["pausing"]
    assert (silent.state, silent.execution_history[-1].error_class_name) == ("paused", "DeadlineExceeded")


def test_the_helpers_name_what_is_awaited(app: Flask) -> None:
    # TST-14 to TST-17
    workflow = parked()

    with pytest.raises(WaitingForSignal, match=r"speedrun|perform_next_step.*'capture'.*signal 'paid'"):
        perform_next_step(workflow)
    with pytest.raises(AssertionError, match="not for 'other'"):
        assert_waiting_for_signal(workflow, "other")
    with pytest.raises(AssertionError, match="has no signal"):
        assert_signal_state(workflow, "paid", "pending")
