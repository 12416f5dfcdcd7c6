"""A delivery happens as a whole, in the sender's transaction, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import event

from flask_geneva import SignalMatcher, Workflow, step
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.testing import assert_waiting_for_signal
from tests.engine.elsewhere import elsewhere, nothing_written
from tests.engine.flows import Boom, boom, reload
from tests.harness.counting import Traffic
from tests.harness.models import Order, db
from tests.signals.flows import Ledger, PaidFlow, parked

Counting = Callable[[], AbstractContextManager[Traffic]]


class TouchyFlow(Workflow[Order]):
    """Its matcher raises for a payload that says so."""

    @step(wait_for=SignalMatcher("paid", lambda workflow, payload: payload == "good" or boom()))
    def capture(self) -> None:
        """Do nothing."""


class WritingMatcherFlow(Workflow[Order]):
    """Its matcher writes, as it must not."""

    @step(wait_for=SignalMatcher("paid", lambda workflow, payload: write_on(workflow.hero) or payload))
    def capture(self) -> None:
        """Do nothing."""


def write_on(order: Order) -> None:
    order.amount = 99
    db.session.flush()


@contextmanager
def failing_at(beginning: str) -> Iterator[None]:
    """The first statement that begins so is not executed but fails."""

    def fail(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if statement.startswith(beginning):
            raise Boom(beginning)

    event.listen(db.engine, "before_cursor_execute", fail)
    try:
        yield
    finally:
        event.remove(db.engine, "before_cursor_execute", fail)


@pytest.mark.parametrize("statement", ["UPDATE geneva_signals", "UPDATE geneva_step_executions"])
def test_a_failure_late_in_the_delivery_leaves_nothing(app: Flask, statement: str) -> None:
    # SIG-27, SIG-28
    workflow = parked()
    workflow.signal("other", 1, idempotency_key="kept")
    db.session.commit()

    with nothing_written():
        with pytest.raises(Boom), failing_at(statement):
            workflow.signal("paid", idempotency_key="once")
        db.session.commit()

    waiting = assert_waiting_for_signal(workflow, "paid")
    assert (waiting.state, waiting.signal_id, waiting.waiting_since is None) == ("waiting", None, False)


def test_after_a_failure_the_sender_simply_tries_again(app: Flask) -> None:
    # SIG-27
    workflow = parked()
    with pytest.raises(Boom), failing_at("UPDATE geneva_step_executions"):
        workflow.signal("paid", idempotency_key="once")

    signal = workflow.signal("paid", idempotency_key="once")
    db.session.commit()

    assert (signal.duplicate_delivery, signal.state) == (False, "claimed")


def test_a_rollback_of_the_sender_undoes_all(app: Flask) -> None:
    # SIG-29
    workflow = parked()

    with nothing_written():
        signal = workflow.signal("paid")
        within = workflow.execution_history[-1]
        assert (within.state, within.signal_id, signal.state) == ("scheduled", signal.id, "claimed")
        db.session.rollback()

    assert assert_waiting_for_signal(workflow).waiting_since is not None
    assert workflow.signals == []


def test_a_rollback_to_a_savepoint_undoes_what_was_sent_in_it(jobs: list[JobRequest]) -> None:
    # SIG-29
    workflow = parked()
    sent = len(jobs)

    with db.session.begin_nested() as savepoint:
        workflow.signal("paid")
        savepoint.rollback()
    db.session.commit()

    assert_waiting_for_signal(workflow)
    assert (workflow.signals, len(jobs)) == ([], sent)


def test_the_lock_comes_before_the_insert_and_nothing_is_committed_between(app: Flask, counting: Counting) -> None:
    # SIG-30
    workflow = parked()
    db.session.rollback()

    with counting() as traffic:
        workflow.signal("paid")

    lock = "FOR " if db.engine.dialect.name != "sqlite" else "FROM geneva_workflows"
    entries = [" ".join(entry.split()) for entry in traffic.log]
    locked = next(number for number, entry in enumerate(entries) if "FROM geneva_workflows" in entry and lock in entry)
    inserted = next(number for number, entry in enumerate(entries) if entry.startswith("INSERT INTO geneva_signals"))
    assert locked < inserted
    assert (traffic.commits, traffic.rollbacks) == (0, 0)


def test_nobody_sees_a_delivery_before_the_senders_commit(app: Flask) -> None:
    # SIG-29, SIG-30
    workflow = parked()

    workflow.signal("paid")

    with elsewhere():
        seen = db.session.get_one(Workflow, workflow.id)
        assert (seen.signals, seen.execution_history[-1].state) == ([], "waiting")


def test_the_job_is_sent_after_the_commit(jobs: list[JobRequest]) -> None:
    # SIG-31
    workflow = parked()
    jobs.clear()

    workflow.signal("paid")
    assert jobs == []
    db.session.commit()

    woken = workflow.execution_history[-1]
    assert [(job.execution_id, job.job_id, job.due) for job in jobs] == [(woken.id, woken.job_id, None)]


def test_a_rolled_back_delivery_sends_nothing(jobs: list[JobRequest]) -> None:
    # SIG-31
    workflow = parked()
    jobs.clear()

    workflow.signal("paid")
    db.session.rollback()
    db.session.commit()

    assert jobs == []


def test_a_matcher_that_raises_raises_to_the_sender_and_leaves_nothing(app: Flask) -> None:
    # SIG-32
    workflow = parked(TouchyFlow)

    with nothing_written():
        with pytest.raises(Boom, match="bang"):
            workflow.signal("paid", "bad", idempotency_key="once")
        db.session.commit()

    assert_waiting_for_signal(reload(workflow))
    assert not workflow.signal("paid", "good", idempotency_key="once").duplicate_delivery


def test_what_the_sender_wrote_before_a_raising_matcher_stays(app: Flask) -> None:
    # SIG-32
    workflow = parked(TouchyFlow)
    db.session.add(Order(state="mine"))

    with pytest.raises(Boom):
        workflow.signal("paid", "bad")
    db.session.commit()

    assert db.session.query(Order).filter_by(state="mine").count() == 1


@pytest.mark.parametrize("payload", [True, False])
def test_what_a_matcher_writes_does_not_stay(app: Flask, payload: bool) -> None:
    workflow = parked(WritingMatcherFlow)

    signal = workflow.signal("paid", payload)
    db.session.commit()

    assert signal.state == ("claimed" if payload else "pending")
    assert reload(workflow).hero.amount == 0


def test_the_senders_own_changes_survive_a_matcher(app: Flask) -> None:
    workflow = parked(WritingMatcherFlow)
    workflow.hero.state = "changed by the sender"

    workflow.signal("paid", True)
    db.session.commit()

    assert (workflow.hero.state, workflow.hero.amount) == ("changed by the sender", 0)


def test_a_delivery_and_the_senders_writes_commit_together(app: Flask, ledger: Ledger) -> None:
    # SIG-29
    workflow = parked(PaidFlow)
    workflow.hero.amount = 5

    workflow.signal("paid")
    db.session.rollback()

    assert (reload(workflow).hero.amount, workflow.signals) == (0, [])
