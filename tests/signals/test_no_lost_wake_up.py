"""The gate and the delivery meet at every possible moment of one another, and the signal is never lost.

One side is stopped before its n-th statement, for every n, while the other runs to its end, or as far as the first
one's locks let it; then the first goes on. Then the same with the sides exchanged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import event

from flask_geneva import Workflow, step
from flask_geneva.engine.executor import execute
from flask_geneva.engine.run import Run
from flask_geneva.engine.transactions import retry_transient
from flask_geneva.testing import assert_signal_state, perform_next_step, speedrun
from tests.engine.flows import reload, start
from tests.harness.models import Order, db, write_down

# Long enough for the other side to end when nothing holds it, short enough for one that is held by our locks.
PATIENCE = 0.4


class MeetingFlow(Workflow[Order]):
    """Waits for one signal."""

    @step(wait_for="met")
    def meet(self) -> None:
        write_down(self)


class Stop:
    """Stops a thread before its n-th statement until it is let go."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.reached, self.go = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._count = 0

    def watch(self, thread: threading.Thread) -> None:
        self._thread = thread

    def before_statement(self, *_: Any) -> None:
        if threading.current_thread() is not self._thread:
            return
        if self._count == self.number:
            self.reached.set()
            assert self.go.wait(30)
        self._count += 1


@contextmanager
def stopping(stop: Stop) -> Iterator[None]:
    event.listen(db.engine, "before_cursor_execute", stop.before_statement)
    try:
        yield
    finally:
        event.remove(db.engine, "before_cursor_execute", stop.before_statement)


def gate(app: Flask, workflow_id: int, execution_id: int) -> None:
    with app.app_context():
        execute(Run(app.extensions["geneva"].runtime, db.session(), runs_ahead=False), execution_id)


def delivery(app: Flask, workflow_id: int, execution_id: int) -> None:
    def deliver() -> None:
        db.session.get_one(Workflow, workflow_id).signal("met")
        db.session.commit()

    with app.app_context():
        retry_transient(db.session(), deliver)


Side = Callable[[Flask, int, int], None]


def run_against(app: Flask, stopped: Side, other: Side, number: int) -> tuple[bool, Workflow[Any], list[BaseException]]:
    """Whether the first side had so many statements, the workflow, and what went wrong."""
    workflow = start(MeetingFlow)
    arguments = (app, workflow.id, workflow.step_executions[0].id)
    db.session.rollback()
    failures: list[BaseException] = []

    def guarded(side: Side) -> None:
        try:
            side(*arguments)
        except BaseException as failure:
            failures.append(failure)

    stop = Stop(number)
    first, second = (threading.Thread(target=guarded, args=(side,)) for side in (stopped, other))
    stop.watch(first)
    with stopping(stop):
        first.start()
        while first.is_alive() and not stop.reached.wait(0.01):
            pass
        second.start()
        second.join(PATIENCE)
        stop.go.set()
        first.join(30)
        second.join(30)
    return stop.reached.is_set(), workflow, failures


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("stopped", "other"), [(gate, delivery), (delivery, gate)], ids=["gate", "delivery"])
def test_every_interleaving_of_gate_and_delivery_wakes_the_step_once(
    app: Flask, ledger: Callable[[Any], list[str]], stopped: Side, other: Side
) -> None:
    # SIG-51
    number, was_reached = 0, True
    while was_reached:
        was_reached, workflow, failures = run_against(app, stopped, other, number)

        assert failures == []
        if reload(workflow).is_ongoing:
            speedrun(workflow)
        assert ledger(workflow) == ["meet"], f"stopped before statement {number}"
        assert_signal_state(workflow, "met", "consumed")
        number += 1
    assert number > 4


def test_two_deliveries_of_one_key_at_the_same_instant_are_one_signal(app: Flask) -> None:
    workflow = start(MeetingFlow)
    perform_next_step(workflow)
    workflow_id, together, told = workflow.id, threading.Barrier(4), []
    db.session.rollback()

    def deliver() -> None:
        with app.app_context():
            mine = db.session.get_one(Workflow, workflow_id)
            db.session.rollback()
            together.wait()
            signal = mine.signal("met", idempotency_key="once")
            db.session.commit()
            told.append(signal.duplicate_delivery)

    threads = [threading.Thread(target=deliver) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(told) == [False, True, True, True]
    assert len(reload(workflow).signals) == 1
    assert workflow.signals[0].claimed == 1
