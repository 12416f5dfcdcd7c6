"""Signals that steps send: at once with the step's writes, to the own workflow and to others, without a deadlock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from flask_geneva import SignalMatcher, StepExecution, Workflow, WorkflowNotOngoing, step
from flask_geneva.engine.executor import execute
from flask_geneva.engine.run import Run
from flask_geneva.testing import assert_signal_state, assert_waiting_for_signal, perform_next_step, speedrun
from tests.harness.models import Order, db, write_down

ROUNDS = 5
MEETINGS: dict[str, threading.Barrier] = {}


class BallFlow(Workflow[Order]):
    """Throws a ball to the workflow that its hero's amount names, and catches one, again and again."""

    def throw(self) -> None:
        other = db.session.get_one(Workflow, self.hero.amount)
        other.signal("ball", {"from": self.id})
        write_down(self)
        if db.engine.dialect.name != "sqlite":
            # Everybody has thrown before anybody's step ends; SQLite has one writer at a time.
            MEETINGS["ring"].wait(10)

    def catch(self) -> None:
        write_down(self, f"caught from {self.received_signal.payload['from']}")

    turns = [
        declared
        for number in range(ROUNDS)
        for declared in (step("throw", name=f"throw_{number}"), step("catch", name=f"catch_{number}", wait_for="ball"))
    ]


class SenderFlow(Workflow[Order]):
    """Signals the workflow that its hero's amount names, and ends as its hero's state says."""

    @step
    def send(self) -> None:
        other = db.session.get_one(Workflow, self.hero.amount)
        signal = other.signal("go", {"n": 1}, idempotency_key="once")
        again = other.signal("go", {"n": 2}, idempotency_key="once")
        assert (signal.state, signal.duplicate_delivery, again.duplicate_delivery) == ("pending", False, True)
        if self.hero.state == "commit in the middle":
            db.session.commit()
        if self.hero.state != "fine":
            raise RuntimeError(self.hero.state)


class ReceiverFlow(Workflow[Order]):
    """Waits to be told."""

    @step(wait_for=SignalMatcher("go", lambda workflow, payload: payload["n"] == 1 and workflow.hero is not None))
    def go(self) -> None:
        write_down(self)


class SelfFlow(Workflow[Order]):
    """Tells itself."""

    @step
    def tell(self) -> None:
        self.signal("told", {"by": "me"})

    @step(wait_for="told")
    def hear(self) -> None:
        write_down(self, self.received_signal.payload["by"])


def new_order(**columns: Any) -> Order:
    order = Order(**columns)
    db.session.add(order)
    db.session.flush()
    return order


def play(app: Flask, workflow_id: int, failures: list[BaseException]) -> None:
    """Run one workflow to its end, as a worker of its own."""
    try:
        with app.app_context():
            while execution_id := _next_execution(workflow_id):
                run = Run(app.extensions["geneva"].runtime, db.session(), runs_ahead=False)
                execute(run, execution_id)
    except BaseException as failure:
        failures.append(failure)


def _next_execution(workflow_id: int) -> int | None:
    """Wait for the next execution; 0 or None when the workflow is done."""
    give_up = threading.Event()
    for _ in range(2000):
        db.session.rollback()
        if not db.session.get_one(Workflow, workflow_id, populate_existing=True).is_ongoing:
            return None
        columns = StepExecution.__table__.c
        found = db.session.scalar(
            select(columns.id).where(columns.workflow_id == workflow_id, columns.state == "scheduled")
        )
        db.session.rollback()
        if found:
            return int(found)
        give_up.wait(0.005)
    raise AssertionError(f"workflow {workflow_id} was not woken")


@pytest.mark.parametrize("players", [2, 5])
def test_workflows_that_signal_one_another_never_wait_for_one_another(
    app: Flask, ledger: Callable[[Any], list[str]], players: int
) -> None:
    MEETINGS["ring"] = threading.Barrier(players)
    orders = [new_order() for _ in range(players)]
    workflows = [BallFlow.create(hero=order) for order in orders]
    for order, other in zip(orders, [*workflows[1:], workflows[0]], strict=True):
        order.amount = other.id
    db.session.commit()
    ids, failures = [workflow.id for workflow in workflows], []
    db.session.rollback()

    threads = [threading.Thread(target=play, args=(app, workflow_id, failures)) for workflow_id in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    for place, workflow in enumerate(workflows):
        expected = [mark for n in range(ROUNDS) for mark in (f"throw_{n}", f"caught from {ids[place - 1]}")]
        assert ledger(workflow) == expected
        assert workflow.state == "finished"


def started_pair(state: str) -> tuple[Workflow[Any], Workflow[Any]]:
    receiver = ReceiverFlow.create(hero=new_order())
    perform_next_step(receiver)
    sender = SenderFlow.create(hero=new_order(amount=receiver.id, state=state))
    db.session.commit()
    return sender, receiver


def test_a_signal_wakes_its_workflow_with_the_senders_commit(app: Flask, ledger: Callable[[Any], list[str]]) -> None:
    # SIG-12
    sender, receiver = started_pair("fine")

    perform_next_step(sender)
    speedrun(receiver)

    assert ledger(receiver) == ["go"]
    assert_signal_state(receiver, "go", "consumed")


def test_a_step_that_fails_has_sent_nothing(app: Flask) -> None:
    sender, receiver = started_pair("broken")

    perform_next_step(sender, raise_errors=False)

    assert_waiting_for_signal(receiver, "go")
    assert receiver.signals == []


def test_a_commit_in_the_middle_of_a_step_takes_its_signals_along(
    app: Flask, ledger: Callable[[Any], list[str]]
) -> None:
    sender, receiver = started_pair("commit in the middle")

    perform_next_step(sender, raise_errors=False)
    speedrun(receiver)

    assert sender.state == "paused"
    assert ledger(receiver) == ["go"]


def test_a_step_may_signal_its_own_workflow(app: Flask, ledger: Callable[[Any], list[str]]) -> None:
    # SIG-12, SIG-24
    workflow = SelfFlow.create(hero=new_order())

    speedrun(workflow)

    assert ledger(workflow) == ["me"]


def test_a_step_that_signals_an_ended_workflow_is_told(app: Flask) -> None:
    sender, receiver = started_pair("fine")
    receiver.cancel()
    db.session.commit()

    with pytest.raises(WorkflowNotOngoing, match="the workflow is canceled"):
        perform_next_step(sender)
