"""Steps that signal one another, and outside senders beside them, never wait for one another in a circle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from flask_geneva import IterableStep, StepExecution, Workflow, on_exception, resumable_step, step
from flask_geneva.engine.executor import execute
from flask_geneva.engine.run import Run
from flask_geneva.testing import speedrun
from tests.engine.flows import boom, reload, start
from tests.harness.models import Order, db, write_down
from tests.harness.waiting import eventually
from tests.signals.flows import Ledger

ROUNDS = 5
MEETINGS: dict[str, threading.Barrier] = {}
CALLS: list[int] = []


class BallFlow(Workflow[Order]):
    """Throws a ball to the workflow that its hero's amount names, and catches one, again and again."""

    def throw(self) -> None:
        other = db.session.get_one(Workflow, self.hero.amount)
        other.signal("ball", self.id, idempotency_key=f"{self.id} {self.current_step_name}")
        write_down(self)
        everybody_is_here()

    def catch(self) -> None:
        write_down(self, f"caught from {self.received_signal.payload}")

    turns = [
        declared
        for number in range(ROUNDS)
        for declared in (step("throw", name=f"throw_{number}"), step("catch", name=f"catch_{number}", wait_for="ball"))
    ]


class CrossingFlow(Workflow[Order]):
    """Sends the same two events as its twin, in the other order."""

    @step
    def send(self) -> None:
        keys = ["a", "b"] if self.hero.reviewed else ["b", "a"]
        for key in keys:
            other = db.session.get_one(Workflow, self.hero.amount)
            other.signal("event", key, idempotency_key=key)
            everybody_is_here()


class CollectingFlow(Workflow[Order]):
    """Waits for what never comes."""

    @step(wait_for="never")
    def collect(self) -> None:
        """Do nothing."""


class EchoFlow(Workflow[Order]):
    """Sends itself what an outsider sends it, too."""

    @step
    def echo(self) -> None:
        self.signal("event", idempotency_key="once")
        everybody_is_here()
        everybody_is_here()


class CallingFlow(Workflow[Order]):
    """Cannot be begun, and calls the workflow that its hero's amount names."""

    @step(skip_if=boom)
    def begin(self) -> None:
        """Do nothing."""

    @on_exception
    def call(self, error: Exception) -> None:
        db.session.get_one(Workflow, self.hero.amount).signal("call", idempotency_key=f"{self.id}")
        if self.id not in CALLS:
            CALLS.append(self.id)
            everybody_is_here()
        self.pause()


class JumpingFlow(Workflow[Order]):
    """Signals another and jumps, while a second job for it comes."""

    @resumable_step
    def jump(self, it: IterableStep) -> None:
        if it.cursor is None:
            db.session.get_one(Workflow, self.hero.amount).signal("event", idempotency_key="jump")
            it.skip_to(1)
        db.session.get_one(Workflow, self.hero.amount).signal("event", idempotency_key="set")
        it.set(2)


def everybody_is_here() -> None:
    """Wait for the others; on SQLite there is one writer at a time, so nobody can."""
    if db.engine.dialect.name != "sqlite":
        MEETINGS["all"].wait(10)


def together(app: Flask, *acts: Callable[[], Any]) -> None:
    """Do all at once, each in a thread and a context of its own; none may fail."""
    failures: list[BaseException] = []

    def guarded(act: Callable[[], Any]) -> None:
        try:
            with app.app_context():
                act()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def job(workflow: Workflow[Any], app: Flask) -> Callable[[], Any]:
    """What a worker does that has the job of the workflow's open execution."""
    execution = workflow.current_execution
    assert execution is not None
    execution_id = execution.id
    db.session.rollback()
    return lambda: execute(Run(app.extensions["geneva"].runtime, db.session(), runs_ahead=False), execution_id)


def sending(workflow: Workflow[Any]) -> Callable[[], Any]:
    """What an outside sender does once the step has sent the same."""
    workflow_id = workflow.id

    def send() -> None:
        everybody_is_here()
        db.session.get_one(Workflow, workflow_id).signal("event", idempotency_key="once")
        db.session.commit()
        everybody_is_here()

    return send


def play(app: Flask, workflow_id: int) -> Callable[[], Any]:
    """Run one workflow to its end, as a worker of its own."""

    def run() -> None:
        while execution_id := eventually(lambda: _next_execution(workflow_id), every=0.005):
            execute(Run(app.extensions["geneva"].runtime, db.session(), runs_ahead=False), int(execution_id))
            if not db.session.get_one(Workflow, workflow_id).is_ongoing:
                return

    return run


def _next_execution(workflow_id: int) -> int | None:
    columns = StepExecution.__table__.c
    of_it = select(columns.id).where(columns.workflow_id == workflow_id, columns.state == "scheduled")
    found = db.session.scalar(of_it)
    db.session.rollback()
    return found


def twins(workflow_class: type[Workflow[Any]]) -> list[Workflow[Any]]:
    """Two workflows of which each has the other's id."""
    pair = [start(workflow_class), start(workflow_class)]
    for one, other in (pair, pair[::-1]):
        one.hero.amount = other.id
    db.session.commit()
    return pair


@pytest.mark.parametrize("players", [2, 5])
def test_a_ring_of_workflows_goes_round(app: Flask, ledger: Ledger, players: int) -> None:
    MEETINGS["all"] = threading.Barrier(players)
    workflows = [start(BallFlow) for _ in range(players)]
    ids = [workflow.id for workflow in workflows]
    for place, workflow in enumerate(workflows):
        workflow.hero.amount = ids[(place + 1) % players]
    db.session.commit()

    together(app, *(play(app, workflow_id) for workflow_id in ids))

    for place, workflow in enumerate(workflows):
        expected = [mark for n in range(ROUNDS) for mark in (f"throw_{n}", f"caught from {ids[place - 1]}")]
        assert (ledger(workflow), reload(workflow).state) == (expected, "finished")


def test_steps_that_send_the_same_events_in_two_orders_both_end(app: Flask) -> None:
    MEETINGS["all"] = threading.Barrier(2)
    receiver = start(CollectingFlow)
    senders = [start(CrossingFlow, amount=receiver.id, reviewed=reviewed) for reviewed in (True, False)]

    together(app, *(job(sender, app) for sender in senders))

    assert sorted(str(signal.idempotency_key) for signal in reload(receiver).signals) == ["a", "b"]
    assert [len(reload(sender).execution_history) for sender in senders] == [1, 1]


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_an_outsider_may_send_what_a_step_sends_to_its_own_workflow(app: Flask) -> None:
    MEETINGS["all"] = threading.Barrier(2)
    workflow = start(EchoFlow)

    together(app, job(workflow, app), sending(workflow))

    assert len(reload(workflow).signals) == 1
    assert [str(each.outcome) for each in workflow.execution_history] == ["success"]


def test_handlers_that_signal_one_another_before_the_body_both_end(app: Flask) -> None:
    # Each holds its own lock when it wants the other's: the database ends one of them, and it is begun again.
    CALLS.clear()
    MEETINGS["all"] = threading.Barrier(2)
    pair = twins(CallingFlow)

    together(app, *(job(workflow, app) for workflow in pair))

    for workflow, other in (pair, pair[::-1]):
        assert [signal.idempotency_key for signal in reload(workflow).signals] == [str(other.id)]
        assert workflow.state == "paused"


def test_a_second_job_does_not_wait_in_a_circle_with_a_checkpoint(app: Flask) -> None:
    # The target has the lower id, so that its lock is to be taken before the sender's own.
    receiver = start(CollectingFlow)
    workflow = start(JumpingFlow, amount=receiver.id)

    together(app, *[job(workflow, app)] * 3)
    speedrun(reload(workflow))

    assert [signal.idempotency_key for signal in reload(receiver).signals] == ["jump", "set"]
    assert [str(each.outcome) for each in workflow.execution_history] == ["continued", "success"]
