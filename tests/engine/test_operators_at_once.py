"""Several operators, workers and steps act on one workflow at once: one wins, the others are told, nobody deadlocks."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Connection, select, text

from flask_geneva import GenevaError, InvalidStateError, StepExecution, Workflow, step
from flask_geneva.engine.transactions import lock_workflow
from flask_geneva.testing import perform_next_step, speedrun
from tests.engine.elsewhere import Ledger, Plan, press
from tests.engine.flows import boom, planned, reload, run_job, start, states
from tests.harness.models import Order, db, write_down
from tests.harness.waiting import eventually


class CrowdedFlow(Workflow[Order]):
    """Two steps that may be planned."""

    @step
    def one(self) -> None:
        planned("one", self)
        write_down(self)

    @step
    def two(self) -> None:
        write_down(self)


class MeddlingFlow(Workflow[Order]):
    """Its step acts on another workflow."""

    @step(on_exception="skip")
    def one(self) -> None:
        write_down(self)
        planned("meddle", self)

    @step
    def two(self) -> None:
        write_down(self)


class LongRoadFlow(Workflow[Order]):
    """Many steps."""

    road = [step("go", name=f"stop_{number}") for number in range(40)]

    def go(self) -> None:
        write_down(self)


class Crowd:
    """Threads with an application context each, which note what they were told."""

    def __init__(self, app: Flask) -> None:
        self.app = app
        self.told: list[BaseException | None] = []
        self.threads: list[threading.Thread] = []

    def go(self, work: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            with self.app.app_context():
                try:
                    work()
                    self.told.append(None)
                except BaseException as error:
                    self.told.append(error)

        thread = threading.Thread(target=run)
        self.threads.append(thread)
        thread.start()
        return thread

    def join(self) -> list[BaseException | None]:
        for thread in self.threads:
            thread.join(60)
        return self.told


@pytest.fixture
def crowd(app: Flask) -> Crowd:
    return Crowd(app)


def somebody_waits(connection: Connection) -> bool:
    waiting = {
        "postgresql": "SELECT count(*) FROM pg_locks WHERE NOT granted",
        "mysql": "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
    }
    count = connection.execute(text(waiting[connection.dialect.name])).scalar_one()
    connection.rollback()
    return bool(count)


PAIRS = [
    ("ready", ("pause",), ("pause",)),
    ("ready", ("cancel",), ("pause",)),
    ("ready", ("cancel",), ("skip",)),
    ("ready", ("cancel",), ("cancel",)),
    ("paused", ("resume",), ("resume",)),
    ("paused", ("resume",), ("resume_at", "two")),
    ("paused", ("resume_at", "two"), ("resume",)),
    ("paused", ("skip",), ("resume",)),
    ("paused", ("cancel",), ("resume",)),
    ("paused", ("cancel",), ("skip",)),
]


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize(("state", "first", "second"), PAIRS)
def test_the_one_who_waited_for_the_lock_is_told_that_the_other_was_first(
    crowd: Crowd, state: str, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    workflow = start(CrowdedFlow)
    if state == "paused":
        workflow.pause()
        db.session.commit()
    workflow_id = workflow.id
    getattr(workflow, first[0])(*first[1:])
    before = workflow.state

    crowd.go(lambda: press(workflow_id, *second))
    with db.engine.connect() as observer:
        # InnoDB shows a cached answer to whoever asks more often than every tenth of a second.
        eventually(lambda: somebody_waits(observer), every=0.2)
    db.session.commit()

    (refusal,) = crowd.join()
    assert isinstance(refusal, InvalidStateError)
    assert f"Cannot {second[0]} CrowdedFlow #{workflow_id}: the workflow is {before}." in str(refusal)
    assert len([each for each in reload(workflow).execution_history if each.is_open]) <= 1


@pytest.mark.parametrize(
    ("state", "verb"), [("ready", "pause"), ("ready", "cancel"), ("paused", "resume"), ("paused", "cancel")]
)
def test_of_eight_who_press_at_once_one_wins(crowd: Crowd, state: str, verb: str) -> None:
    workflow = start(CrowdedFlow)
    if state == "paused":
        workflow.pause()
        db.session.commit()
    workflow_id, gate = workflow.id, threading.Barrier(8)
    db.session.rollback()

    def press_together() -> None:
        db.session.get_one(Workflow, workflow_id)
        gate.wait(20)
        press(workflow_id, verb)

    for _ in range(8):
        crowd.go(press_together)

    told = crowd.join()
    assert told.count(None) == 1
    assert all(each is None or isinstance(each, InvalidStateError) for each in told)


def operate(workflow_id: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(12):
        try:
            press(workflow_id, chance.choice(["pause", "resume", "skip", "pause", "resume"]))
        except GenevaError:
            db.session.rollback()


def work() -> None:
    for _ in range(25):
        execution_id = db.session.scalar(select(StepExecution.id).where(StepExecution.state == "scheduled"))
        db.session.rollback()
        if execution_id is not None:
            run_job(execution_id)


def test_a_crowd_of_operators_and_workers_leaves_a_workflow_that_can_go_on(crowd: Crowd, ledger: Ledger) -> None:
    workflow = start(LongRoadFlow)
    workflow_id = workflow.id
    db.session.rollback()

    for seed in range(4):
        crowd.go(lambda seed=seed: operate(workflow_id, seed))
    for _ in range(2):
        crowd.go(work)

    assert crowd.join() == [None] * 6
    if reload(workflow).state == "paused":
        workflow.resume()
    assert len([each for each in workflow.execution_history if each.is_open]) == int(workflow.is_ongoing)
    speedrun(workflow)
    assert workflow.state == "finished"
    marks = ledger(workflow)
    assert len(marks) == len(set(marks)), "every step ran once at most"


@pytest.mark.parametrize(
    ("state", "verb", "arguments", "expected"),
    [
        ("ready", "pause", (), "paused"),
        ("ready", "skip", (), "ready"),
        ("ready", "cancel", (), "canceled"),
        ("paused", "resume", (), "ready"),
        ("paused", "resume_at", ("two",), "ready"),
        ("paused", "skip", (), "ready"),
        ("paused", "cancel", (), "canceled"),
    ],
)
def test_a_step_acts_on_another_workflow_as_an_operator_does(
    app: Flask, plan: Plan, ledger: Ledger, state: str, verb: str, arguments: tuple[str, ...], expected: str
) -> None:
    # B-05, FLW-20
    other = start(CrowdedFlow)
    if state == "paused":
        other.pause()
        db.session.commit()
    other_id = other.id
    plan["meddle"] = lambda workflow: getattr(db.session.get_one(Workflow, other_id), verb)(*arguments)
    workflow = start(MeddlingFlow)

    perform_next_step(workflow)

    assert (workflow.next_step_name, ledger(workflow)) == ("two", ["one"])
    assert reload(other).state == expected


def test_a_step_asks_a_performing_workflow_to_stop(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # B-05, B-06
    other, meddler = start(CrowdedFlow), start(MeddlingFlow)
    other_id, job_of_the_meddler = other.id, meddler.step_executions[0].id
    plan["meddle"] = lambda workflow: db.session.get_one(Workflow, other_id).cancel()
    plan["one"] = lambda workflow: run_job_within(job_of_the_meddler)

    run_job(other.step_executions[0].id)

    assert (reload(other).state, ledger(other)) == ("canceled", ["one"])
    assert (reload(meddler).state, ledger(meddler)) == ("ready", ["one"])


def run_job_within(execution_id: int) -> None:
    """Run another workflow's job, in its own context, while a step runs."""
    run_job(execution_id)


def test_what_a_failed_step_did_to_another_workflow_is_undone(app: Flask, plan: Plan) -> None:
    other = start(CrowdedFlow)
    other_id = other.id

    def cancel_and_fail(workflow: Any) -> None:
        db.session.get_one(Workflow, other_id).cancel()
        boom()

    plan["meddle"] = cancel_and_fail
    workflow = start(MeddlingFlow)

    perform_next_step(workflow)

    assert states(workflow)[0] == ("one", "skipped", "skipped")
    assert (reload(other).state, states(other)) == ("ready", [("one", "scheduled", None)])


def test_a_refusal_by_another_workflow_is_an_error_like_any_other(app: Flask, plan: Plan) -> None:
    # B-05
    other = start(CrowdedFlow)
    other_id = other.id
    plan["meddle"] = lambda workflow: db.session.get_one(Workflow, other_id).resume()
    workflow = start(MeddlingFlow)

    perform_next_step(workflow)

    assert workflow.execution_history[0].details["exception"]["class"] == "InvalidStateError"
    assert reload(other).state == "ready"


@pytest.mark.databases("postgresql", "mariadb")
def test_two_steps_that_act_on_one_another_both_end(crowd: Crowd, plan: Plan) -> None:
    first, second = start(MeddlingFlow), start(MeddlingFlow)
    others, meeting = {first.id: second.id, second.id: first.id}, threading.Barrier(2)
    jobs = [each.step_executions[0].id for each in (first, second)]
    db.session.rollback()

    def cancel_the_other(workflow: Any) -> None:
        meeting.wait(20)
        db.session.get_one(Workflow, others[workflow.id]).cancel()
        meeting.wait(20)

    plan["meddle"] = cancel_the_other
    for execution_id in jobs:
        crowd.go(lambda execution_id=execution_id: run_job(execution_id))

    assert crowd.join() == [None, None]
    assert "canceled" in {reload(first).state, reload(second).state}
    assert "performing" not in {first.state, second.state}


@pytest.mark.parametrize("seed", range(3))
def test_operators_of_neighbouring_workflows_do_not_meet(crowd: Crowd, seed: int) -> None:
    ids = [start(LongRoadFlow).id for _ in range(5)]
    db.session.rollback()

    def operate(workflow_id: int) -> None:
        for _ in range(10):
            press(workflow_id, "pause")
            press(workflow_id, "resume")
            press(workflow_id, "skip")

    for workflow_id in ids:
        crowd.go(lambda workflow_id=workflow_id: operate(workflow_id))

    assert crowd.join() == [None] * 5


@pytest.mark.databases("postgresql", "mariadb")
def test_a_hero_is_gone_that_was_deleted_by_whoever_held_the_lock(crowd: Crowd, plan: Plan) -> None:
    # The step's end begins to wait for the lock before the deletion is committed, and decides by what is there after.
    workflow = start(CrowdedFlow)
    execution_id = workflow.step_executions[0].id
    begun, may_end = threading.Event(), threading.Event()

    def wait(running: Any) -> None:
        begun.set()
        assert may_end.wait(60)

    plan["one"] = wait
    crowd.go(lambda: run_job(execution_id, runs_ahead=True))
    assert begun.wait(60)
    lock_workflow(db.session(), workflow.id)
    db.session.delete(workflow.hero)
    db.session.flush()
    may_end.set()
    with db.engine.connect() as observer:
        eventually(lambda: somebody_waits(observer), every=0.2)
    db.session.commit()

    assert crowd.join() == [None]
    assert states(reload(workflow)) == [("one", "completed", "success"), ("two", "canceled", "canceled")]
