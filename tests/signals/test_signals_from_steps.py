"""Signals that steps send: with the step's writes, to the own workflow and to others, waiting for nobody."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select

from flask_geneva import (
    GenevaError,
    IterableStep,
    Signal,
    SignalMatcher,
    Workflow,
    WorkflowNotOngoing,
    events,
    on_exception,
    resumable_step,
    step,
)
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.testing import (
    assert_signal_state,
    assert_step_executed,
    assert_waiting_for_signal,
    perform_next_step,
    run_iterations,
    speedrun,
)
from tests.engine.elsewhere import Plan, elsewhere, press
from tests.engine.flows import Boom, boom, planned, reload, start
from tests.harness.models import Order, db, write_down
from tests.signals.flows import Ledger


class SenderFlow(Workflow[Order]):
    """Does in its first step what the test says."""

    @step
    def send(self) -> None:
        write_down(self)
        planned("send", self)

    @step
    def afterwards(self) -> None:
        write_down(self)


class ReceiverFlow(Workflow[Order]):
    """Waits to be told."""

    @step(wait_for=[SignalMatcher("go", lambda workflow, payload: payload == "go" or boom()), "other"])
    def go(self) -> None:
        write_down(self, f"told {self.received_signal.payload}")


class SelfFlow(Workflow[Order]):
    """Tells itself."""

    @step
    def tell(self) -> None:
        signal = self.signal("told", "by me", idempotency_key="once")
        assert (signal.idempotency_key, signal.duplicate_delivery) == ("once", False)
        assert self.signal("told", "again", idempotency_key="once").duplicate_delivery

    @step(wait_for="told")
    def hear(self) -> None:
        write_down(self, self.received_signal.payload)


class MessagingFlow(Workflow[Order]):
    """Signals with each item."""

    @resumable_step(max_iterations=1)
    def count(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(2)):
            tell(self, "go", f"item {number}")

    @resumable_step
    def jump(self, it: IterableStep) -> None:
        if it.cursor is None:
            tell(self, "go", "jumped")
            it.skip_to(1)


class HelplessFlow(SenderFlow):
    """Calls for help when its step fails."""

    @on_exception
    def call(self, error: Exception) -> None:
        tell(self, "go", "help")
        self.pause()


def tell(workflow: Any, name: str, key: str | None = None, payload: object = "go") -> Signal:
    """Signal the workflow that the hero's amount names."""
    other = db.session.get_one(Workflow, workflow.hero.amount)
    return other.signal(name, payload, idempotency_key=key)


def pair(sender_class: type[Workflow[Any]] = SenderFlow) -> tuple[Workflow[Any], Workflow[Any]]:
    """A workflow that sends and a parked one that receives; the one that was made first has the lower id."""
    receiver = start(ReceiverFlow)
    perform_next_step(receiver)
    return start(sender_class, amount=receiver.id), receiver


def test_a_signal_wakes_its_workflow_with_the_senders_commit(app: Flask, ledger: Ledger, plan: Plan) -> None:
    # SIG-12
    sender, receiver = pair()
    plan["send"] = lambda workflow: tell(workflow, "go")

    perform_next_step(sender)
    speedrun(receiver)

    assert ledger(receiver) == ["told go"]
    assert_signal_state(receiver, "go", "consumed")


def test_the_woken_steps_job_is_sent_with_the_senders(jobs: list[JobRequest], plan: Plan) -> None:
    # SIG-31
    sender, receiver = pair()
    plan["send"] = lambda workflow: tell(workflow, "go")
    jobs.clear()

    perform_next_step(sender)

    woken = receiver.execution_history[-1].id
    assert sorted(job.execution_id for job in jobs) == sorted([woken, sender.execution_history[-1].id])


def test_a_signal_that_a_step_sends_is_stored_at_once(app: Flask, plan: Plan) -> None:
    sender, receiver = pair()
    seen: list[Any] = []

    def send(workflow: Any) -> None:
        signal = tell(workflow, "go", "once")
        seen.append((signal.id, signal.state, signal.payload, signal.idempotency_key, signal.workflow.id))
        seen.append(db.session.scalar(select(func.count()).select_from(Signal)))

    plan["send"] = send
    perform_next_step(sender)

    (signal,) = receiver.signals
    assert seen == [(signal.id, "pending", "go", "once", receiver.id), 1]
    assert (signal.idempotency_key, signal.claimed) == ("once", 1)


def test_a_step_that_fails_has_sent_nothing(app: Flask, plan: Plan) -> None:
    sender, receiver = pair()
    plan["send"] = lambda workflow: (tell(workflow, "go"), boom())

    with pytest.raises(Boom):
        perform_next_step(sender)

    assert_waiting_for_signal(receiver, "go")
    assert receiver.signals == []


def test_a_second_delivery_in_the_same_step_is_told(app: Flask, plan: Plan) -> None:
    # SIG-13
    sender, receiver = pair()
    told: list[Signal] = []
    plan["send"] = lambda workflow: told.extend(tell(workflow, "go", "once") for _ in range(2))

    perform_next_step(sender)

    assert [signal.duplicate_delivery for signal in told] == [False, True]
    assert told[0].id == told[1].id
    assert [signal.idempotency_key for signal in receiver.signals] == ["once"]


def test_a_second_delivery_of_what_another_has_sent_is_told(app: Flask, plan: Plan) -> None:
    # SIG-13, SIG-14
    sender, receiver = pair()
    first = receiver.signal("else", "first", idempotency_key="once")
    db.session.commit()
    told: list[Signal] = []
    plan["send"] = lambda workflow: told.append(tell(workflow, "else", "once", "second"))

    perform_next_step(sender)

    assert (told[0].id, told[0].duplicate_delivery) == (first.id, True)
    assert [signal.payload for signal in receiver.signals] == ["first"]


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_what_another_sends_while_the_step_runs_comes_first(app: Flask, ledger: Ledger, plan: Plan) -> None:
    # On SQLite the step is the one writer from its first write on, so that nobody comes between.
    sender, receiver = pair()

    def send(workflow: Any) -> None:
        assert not tell(workflow, "other", "once", "second").duplicate_delivery
        with elsewhere():
            other = db.session.get_one(Workflow, workflow.hero.amount)
            assert not other.signal("other", "first", idempotency_key="once").duplicate_delivery
            db.session.commit()

    plan["send"] = send
    perform_next_step(sender)
    speedrun(receiver)

    assert [signal.payload for signal in receiver.signals] == ["first"]
    assert (ledger(receiver), sender.state) == (["told first"], "ready")


def test_a_signal_in_a_savepoint_that_the_step_rolls_back_wakes_nobody(app: Flask, ledger: Ledger, plan: Plan) -> None:
    # SQLite gives the number of the lost row to the next signal, which is for somebody else.
    sender, receiver = pair()
    bystander = start(SenderFlow)
    bystander_id = bystander.id

    def send(workflow: Any) -> None:
        with db.session.begin_nested() as savepoint:
            tell(workflow, "other")
            savepoint.rollback()
        db.session.get_one(Workflow, bystander_id).signal("other")

    plan["send"] = send
    perform_next_step(sender)

    assert_waiting_for_signal(receiver)
    assert (receiver.signals, len(bystander.signals)) == ([], 1)


def test_a_key_from_a_savepoint_that_was_rolled_back_may_be_sent_again(app: Flask, plan: Plan) -> None:
    sender, receiver = pair()

    def send(workflow: Any) -> None:
        with db.session.begin_nested() as savepoint:
            tell(workflow, "else", "once")
            savepoint.rollback()
        tell(workflow, "unrelated")
        assert not tell(workflow, "else", "once").duplicate_delivery

    plan["send"] = send
    perform_next_step(sender)

    assert [(signal.name, signal.idempotency_key) for signal in receiver.signals] == [
        ("unrelated", None),
        ("else", "once"),
    ]


def test_a_commit_in_the_middle_of_a_step_takes_its_signals_along(app: Flask, ledger: Ledger, plan: Plan) -> None:
    sender, receiver = pair()
    plan["send"] = lambda workflow: (tell(workflow, "go", "once"), db.session.commit(), boom())

    with pytest.raises(Boom):
        perform_next_step(sender)
    speedrun(receiver)

    assert [signal.idempotency_key for signal in receiver.signals] == ["once"]
    assert (sender.state, ledger(receiver)) == ("paused", ["told go"])


def test_checkpoints_take_the_signals_of_their_iteration_along(app: Flask, plan: Plan) -> None:
    sender, receiver = pair(MessagingFlow)

    run_iterations(sender, 1)
    assert [signal.idempotency_key for signal in receiver.signals] == ["item 0"]

    speedrun(sender)
    keys = [signal.idempotency_key for signal in reload(receiver).signals]
    assert (keys, sender.state) == (["item 0", "item 1", "jumped"], "finished")


def test_a_step_may_signal_its_own_workflow(app: Flask, ledger: Ledger) -> None:
    # SIG-12, SIG-24
    workflow = start(SelfFlow)

    speedrun(workflow)

    assert ledger(workflow) == ["by me"]
    assert [signal.idempotency_key for signal in workflow.signals] == ["once"]


def test_a_handlers_signal_is_sent_with_its_verb(app: Flask, ledger: Ledger, plan: Plan) -> None:
    sender, receiver = pair(HelplessFlow)
    plan["send"] = boom

    perform_next_step(sender, raise_errors=False)
    speedrun(receiver)

    assert (sender.state, ledger(receiver)) == ("paused", ["told go"])


def test_a_handlers_signal_takes_nothing_of_what_the_failed_step_sent(app: Flask, ledger: Ledger, plan: Plan) -> None:
    # SQLite gives the handler's signal the number of the step's, which was rolled back.
    sender, receiver = pair(HelplessFlow)
    plan["send"] = lambda workflow: (tell(workflow, "go", "of the step"), boom())

    perform_next_step(sender, raise_errors=False)
    speedrun(receiver)

    assert [signal.idempotency_key for signal in receiver.signals] == ["help"]
    assert (sender.state, ledger(receiver)) == ("paused", ["told go"])


def test_a_step_that_signals_an_ended_workflow_is_told(app: Flask, plan: Plan) -> None:
    # SIG-19, SIG-20
    sender, receiver = pair()
    receiver.cancel()
    plan["send"] = lambda workflow: tell(workflow, "go")

    with pytest.raises(WorkflowNotOngoing, match="the workflow is canceled"):
        perform_next_step(sender)


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_a_workflow_that_ends_before_the_steps_commit_leaves_the_signal_pending(
    app: Flask, plan: Plan, caplog: pytest.LogCaptureFixture
) -> None:
    sender, receiver = pair()
    plan["send"] = lambda workflow: (tell(workflow, "go"), press(workflow.hero.amount, "cancel"))
    perform_next_step(sender)

    assert sender.state == "ready"
    assert_signal_state(receiver, "go", "pending")
    assert "came too late" in caplog.text


def test_a_paused_workflow_buffers_what_a_step_sends(app: Flask, ledger: Ledger, plan: Plan) -> None:
    # SIG-23
    sender, receiver = pair()
    receiver.pause()
    plan["send"] = lambda workflow: tell(workflow, "go")

    perform_next_step(sender)
    assert_signal_state(receiver, "go", "pending")
    receiver.resume()
    speedrun(receiver)

    assert ledger(receiver) == ["told go"]


def test_a_matcher_that_raises_is_an_error_of_the_step_that_sent(app: Flask, ledger: Ledger, plan: Plan) -> None:
    # SIG-32
    sender, receiver = pair()
    plan["send"] = lambda workflow: tell(workflow, "go", payload="explode")

    with pytest.raises(Boom):
        perform_next_step(sender)

    assert_step_executed(sender, "send", "failed")
    assert_waiting_for_signal(receiver)
    assert (receiver.signals, ledger(sender)) == ([], [])


def test_subscribers_hear_of_each_signal_once(app: Flask, plan: Plan) -> None:
    sender, receiver = pair()
    heard: list[int] = []
    plan["send"] = lambda workflow: [tell(workflow, "else", "once") for _ in range(2)]

    with events.signal_received.connected_to(lambda app, **facts: heard.append(facts["signal_id"])):
        perform_next_step(sender)

    assert heard == [receiver.signals[0].id]


def test_a_mistake_in_a_step_is_told_to_it(app: Flask, plan: Plan) -> None:
    # SIG-02, SIG-11
    sender, receiver = pair()
    plan["send"] = lambda workflow: tell(workflow, "go", payload=object())

    with pytest.raises(GenevaError, match="Cannot store payload"):
        perform_next_step(sender)

    assert receiver.signals == []
