"""A process is killed between each two statements and commits, and what it was at is done once in the end."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from rq.executions import ExecutionRegistry
from sqlalchemy import delete, func, select

from flask_geneva import (
    InvalidStateError,
    IterableStep,
    Signal,
    Workflow,
    WorkflowNotOngoing,
    resumable_step,
    step,
)
from flask_geneva.records.tables import TABLES
from tests.engine.elsewhere import press
from tests.harness.apps import burst, geneva
from tests.harness.dying import is_killed_at
from tests.harness.invariants import broken
from tests.harness.models import LedgerEntry, Order, db, write_down, written_down
from tests.housekeeping.workflows import ago, begin_by_hand, create, write_execution, write_workflow

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300), pytest.mark.databases("postgresql", "mariadb", "mysql")]

Tell = Callable[[str, object], None]

# The engine says the same to each database, but for the way in which it locks.
EVERY = {"postgresql": 2, "mariadb": 3, "mysql": 3}


class CrashPeerFlow(Workflow[Order]):
    """Waits for what another workflow's step sends."""

    @step(wait_for="told")
    def hear(self) -> None:
        write_down(self)


class CrashFlow(Workflow[Order]):
    """Every kind of step."""

    @step
    def first(self) -> None:
        write_down(self)
        self.hero.amount += 1

    @step(job_options={"description": "a job of its own"})
    def apart(self) -> None:
        write_down(self)
        self.hero.amount += 1

    @step(wait_for="go")
    def signaled(self) -> None:
        write_down(self, f"signaled {self.received_signal.payload}")

    @resumable_step(max_iterations=2)
    def count(self, it: IterableStep) -> None:
        for item in it.iterate_over(range(3)):
            write_down(self, f"count {item}")

    @step
    def tell(self) -> None:
        write_down(self)
        for peer in db.session.scalars(select(CrashPeerFlow)):
            peer.signal("told", idempotency_key="once")

    @step(on_exception="reattempt")
    def fail_once(self) -> None:
        write_down(self)
        if not any(each.outcome == "reattempted" for each in self.execution_history):
            raise RuntimeError("on purpose")

    @step(skip_if=True)
    def passed_over(self) -> None:
        write_down(self)

    @step(wait_for="never", deadline=timedelta(0), on_deadline="run")
    def last(self) -> None:
        write_down(self)


CRASH_LEDGER = ["first", "apart", "signaled 7", "count 0", "count 1", "count 2", "tell", "fail_once", "last"]


@pytest.fixture
def app_config() -> dict[str, Any]:
    """Nobody is alive when housekeeping looks, so that nothing needs its patience."""
    return {"GENEVA_STUCK_SCHEDULED_THRESHOLD": 0, "GENEVA_STUCK_IN_PROGRESS_THRESHOLD": 0}


def let_every_heart_stop() -> None:
    """What a minute and a half does."""
    for key in geneva.redis.scan_iter("geneva:running:*"):
        geneva.redis.delete(key)
    for key in geneva.redis.scan_iter(ExecutionRegistry("*", geneva.redis).key):
        geneva.redis.pexpire(key, 60_000)


def let_all_end() -> None:
    """Keep house and work until nothing goes on."""
    for _ in range(10):
        let_every_heart_stop()
        geneva.run_housekeeping()
        assert broken() == []
        burst()
        assert broken() == []
        if ongoing() == 0:
            return
    raise AssertionError([workflow.explain() for workflow in db.session.scalars(select(Workflow))])


def ongoing() -> int:
    db.session.rollback()
    return db.session.scalar(select(func.count()).select_from(Workflow).where(Workflow.is_ongoing)) or 0


def moments(app: Flask, begin: Callable[[], Callable[[], object]], check: Callable[[], None], every: int = 1) -> int:
    """Kill the work at one moment after the other until it ends before it is killed; the number of moments.

    :param begin: prepares what is there before, and returns what is done and killed.
    :param check: sees that all is well afterwards.
    """
    for moment in itertools.count(1, every):
        for table in (*reversed(TABLES), LedgerEntry.__table__, Order.__table__):
            db.session.execute(delete(table))
        db.session.commit()
        geneva.redis.flushdb()
        is_killed = is_killed_at(moment, app, begin())
        check()
        if not is_killed:
            return (moment - 1) // every
    raise AssertionError


def workflow_of(workflow_class: type[Workflow[Any]]) -> Any:
    db.session.rollback()
    return db.session.scalars(select(workflow_class)).one()


def test_steps_that_are_killed_at_any_moment_are_done_once(
    queueing_app: Flask, record_property: Tell, database_kind: str
) -> None:
    def begin() -> Callable[[], object]:
        flow, _ = create(CrashFlow), create(CrashPeerFlow)
        flow.signal("go", 7)
        db.session.commit()
        return burst

    def check() -> None:
        let_all_end()
        flow, peer = workflow_of(CrashFlow), workflow_of(CrashPeerFlow)
        assert written_down(flow.id) == CRASH_LEDGER
        assert written_down(peer.id) == ["hear"]
        assert (flow.state, peer.state, flow.hero.amount) == ("finished", "finished", 2)
        assert {signal.state for signal in db.session.scalars(select(Signal))} == {"consumed"}

    number = moments(queueing_app, begin, check, every=EVERY[database_kind])

    assert number > 40
    record_property(f"{database_kind}: steps killed", f"at {number} moments, each done once")


def test_a_creation_that_is_killed_is_whole_or_was_not(queueing_app: Flask) -> None:
    def create_several() -> None:
        orders = [Order(), Order()]
        db.session.add_all(orders)
        for order in orders:
            CrashPeerFlow.create(hero=order).signal("told")
        db.session.commit()

    def check() -> None:
        let_all_end()
        orders, flows = (db.session.scalar(select(func.count(each.id))) for each in (Order, Workflow))
        assert orders == flows
        assert flows in (0, 2)
        assert [written_down(flow.id) for flow in db.session.scalars(select(Workflow))] == [["hear"]] * flows

    assert moments(queueing_app, lambda: create_several, check) > 8


def parked_peer() -> int:
    workflow_id = int(create(CrashPeerFlow).id)
    burst()
    return workflow_id


def test_a_sender_that_is_killed_has_sent_or_has_not(queueing_app: Flask) -> None:
    def begin() -> Callable[[], object]:
        workflow_id = parked_peer()

        def send() -> None:
            db.session.get_one(Workflow, workflow_id).signal("told", idempotency_key="event 1")
            db.session.commit()

        return send

    def check() -> None:
        # As whoever was not answered does.
        with suppress(WorkflowNotOngoing):
            workflow_of(CrashPeerFlow).signal("told", idempotency_key="event 1")
            db.session.commit()
        let_all_end()
        assert written_down(workflow_of(CrashPeerFlow).id) == ["hear"]
        signal = db.session.scalars(select(Signal)).one()
        assert (signal.state, signal.claimed, signal.consumed) == ("consumed", 1, 1)

    assert moments(queueing_app, begin, check) > 5


@pytest.mark.parametrize("verb", ["resume", "skip", "cancel"])
def test_an_operator_who_is_killed_has_acted_or_has_not(verb: str, queueing_app: Flask) -> None:
    def begin() -> Callable[[], object]:
        workflow_id = parked_peer()
        press(workflow_id, "pause")
        send_late(workflow_id)
        return lambda: press(workflow_id, verb)

    def check() -> None:
        assert broken() == []
        with suppress(InvalidStateError):
            press(workflow_of(CrashPeerFlow).id, verb)
        let_all_end()
        flow = workflow_of(CrashPeerFlow)
        assert flow.state == ("canceled" if verb == "cancel" else "finished")
        assert written_down(flow.id) == (["hear"] if verb == "resume" else [])

    assert moments(queueing_app, begin, check) > 4


def send_late(workflow_id: int) -> None:
    """Send what a paused workflow keeps."""
    db.session.get_one(Workflow, workflow_id).signal("told")
    db.session.commit()


def test_housekeeping_that_is_killed_is_done_by_the_next_run(queueing_app: Flask) -> None:
    def begin() -> Callable[[], object]:
        dead, lost, stuck, ended, old = (create(CrashPeerFlow) for _ in range(5))
        begin_by_hand(dead, job_id="nobody")
        write_execution(lost, job_id="lost")
        write_execution(stuck, state="completed", outcome="reattempted", finished_at=ago(minutes=1))
        write_workflow(ended, state="finished", transitioned_at=ago(minutes=1))
        write_execution(old, state="canceled", outcome="canceled", finished_at=ago(days=31))
        write_workflow(old, state="canceled", transitioned_at=ago(days=31))
        for flow in (dead, lost, stuck):
            flow.signal("told")
        db.session.commit()
        return geneva.run_housekeeping

    def check() -> None:
        let_all_end()
        flows = db.session.scalars(select(Workflow).order_by(Workflow.id)).all()
        assert [flow.state for flow in flows] == ["finished"] * 4
        assert [written_down(flow.id) for flow in flows] == [["hear"], ["hear"], ["hear"], []]

    assert moments(queueing_app, begin, check) > 20
