"""Verbs, signals, errors, deaths, deploys and housekeeping in any order: the invariants hold after every move."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
from flask import Flask
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete, event, select, update

from flask_geneva import (
    Geneva,
    InvalidStateError,
    IterableStep,
    StepExecution,
    StepNotDefinedError,
    Workflow,
    WorkflowAlreadyOngoing,
    WorkflowNotOngoing,
    removed_step,
    resumable_step,
    step,
)
from flask_geneva.records.tables import signals, step_executions, workflows
from tests.engine.elsewhere import elsewhere, nothing_written, press
from tests.engine.flows import Boom, run_job
from tests.harness.invariants import broken
from tests.harness.models import LedgerEntry, Order, db, write_down
from tests.housekeeping.workflows import ago

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

STEPS = ("one", "two", "three", "four", "five")
SIGNALS = ("go", "left", "right", "noise")


class Died(BaseException):
    """The process is no more."""


class Script:
    """What the next piece of a step's code does; asked once."""

    act: Callable[[Any], None] | None = None


def act(workflow: Any) -> None:
    wanted, Script.act = Script.act, None
    if wanted is not None:
        wanted(workflow)


class FirstVersion(Workflow[Order]):
    """Every kind of step."""

    @step
    def one(self) -> None:
        act(self)
        write_down(self)

    @step(wait_for="go", on_exception="reattempt", max_reattempts=2)
    def two(self) -> None:
        act(self)
        write_down(self)

    @resumable_step(max_iterations=2)
    def three(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(4)):
            act(self)
            write_down(self, f"item {number}")

    @step(wait=timedelta(hours=1), wait_for=["left", "right"], deadline=timedelta(hours=1), on_deadline="skip")
    def four(self) -> None:
        act(self)
        write_down(self)

    @step(skip_if=lambda workflow: workflow.hero.state == "skip")
    def five(self) -> None:
        act(self)
        write_down(self)


class BuriedVersion(FirstVersion):
    """Two steps were removed, and have a gravestone."""

    two = removed_step()
    four = removed_step()


class GoneVersion(Workflow[Order]):
    """Two steps were deleted without one."""

    one = step("work")
    three = step("work")
    five = step("work")

    def work(self) -> None:
        act(self)
        write_down(self)


class ImpatientVersion(FirstVersion):
    """Waits where it did not, and does not where it did."""

    @step(name="six", wait_for="go", after="five")
    def six(self) -> None:
        write_down(self)


VERSIONS = (FirstVersion, BuriedVersion, GoneVersion, ImpatientVersion)


def fail(workflow: Any) -> None:
    raise Boom("bang")


def verb(name: str, **options: Any) -> Callable[[Any], None]:
    return lambda workflow: getattr(workflow, name)(**options)


def pressed(name: str) -> Callable[[Any], None]:
    return lambda workflow: press(workflow.id, name)


ACTS: dict[str, Callable[[Any], None] | None] = {
    "go well": None,
    "fail": fail,
    "cancel": verb("cancel"),
    "pause": verb("pause"),
    "skip": verb("skip"),
    "finish": verb("finish"),
    "reattempt": verb("reattempt"),
    "reattempt later": verb("reattempt", wait=60),
    "be paused": pressed("pause"),
    "be canceled": pressed("cancel"),
    "be told to go": lambda workflow: send(workflow.id, "go", None),
    "tell itself to go": lambda workflow: workflow.signal("go"),
}


def send(workflow_id: int, name: str, key: str | None) -> None:
    with elsewhere():
        db.session.get_one(Workflow, workflow_id).signal(name, {"n": 1}, idempotency_key=key)
        db.session.commit()


@contextmanager
def dying_at(moment: int) -> Iterator[None]:
    """Be killed before that request to the database; what was not committed is gone."""
    requests = itertools.count(1)

    def come(*_: Any) -> None:
        if next(requests) == moment:
            raise Died

    engine = db.engine
    for name in ("before_cursor_execute", "commit"):
        event.listen(engine, name, come)
    try:
        yield
    except Died:
        # A process takes its connections along; SQLAlchemy would keep one whose commit came to nothing as it was.
        db.session.remove()
        engine.dispose()
    finally:
        for name in ("before_cursor_execute", "commit"):
            event.remove(engine, name, come)


class Life(RuleBasedStateMachine):
    """One hero, its workflows, and all that can happen to them."""

    extension: Geneva

    @initialize(place=st.sampled_from(STEPS))
    def begin(self, place: str) -> None:
        """Begin at any step, or the later ones would hardly ever be reached."""
        Script.act = None
        db.session.rollback()
        for table in (signals, step_executions, workflows, LedgerEntry.__table__):
            db.session.execute(delete(table))
        order = Order()
        db.session.add(order)
        db.session.commit()
        self.order_id = order.id
        self.ended: dict[int, tuple[Any, ...]] = {}
        self.workflow_id = 0
        self.version: type[Workflow[Any]] = FirstVersion
        self.create(allow_multiple=False)
        for _ in range(20):
            if self.workflow.next_step_name != place:
                self.go_on(runs_ahead=False)
                self.send_what_it_waits_for()

    # -- what happens

    @precondition(lambda self: not self.workflow.is_ongoing)
    @rule()
    def begin_again(self) -> None:
        self.create(allow_multiple=False)

    @rule(allow_multiple=st.booleans())
    def create(self, allow_multiple: bool) -> None:
        db.session.rollback()
        with suppress(WorkflowAlreadyOngoing):
            order = db.session.get_one(Order, self.order_id)
            self.workflow_id = self.version.create(hero=order, allow_multiple=allow_multiple).id
        db.session.commit()

    @precondition(lambda self: self.workflow.state == "ready")
    @rule(runs_ahead=st.booleans())
    def go_on(self, runs_ahead: bool) -> None:
        self._run_what_comes("go well", None, runs_ahead=runs_ahead, ignores_time=True)

    @precondition(lambda self: self.workflow.state == "ready")
    @rule(act=st.sampled_from(sorted(ACTS)), runs_ahead=st.booleans(), ignores_time=st.booleans())
    def act(self, act: str, runs_ahead: bool, ignores_time: bool) -> None:
        self._run_what_comes(act, None, runs_ahead=runs_ahead, ignores_time=ignores_time)

    @precondition(lambda self: self.workflow.state == "ready")
    @rule(act=st.sampled_from(sorted(ACTS)), moment=st.integers(1, 25))
    def die(self, act: str, moment: int) -> None:
        self._run_what_comes(act, moment, runs_ahead=True, ignores_time=True)

    @precondition(lambda self: self.workflow.current_execution is not None)
    @rule()
    def send_what_it_waits_for(self) -> None:
        with suppress(WorkflowNotOngoing):
            send(self.workflow_id, {"two": "go", "four": "right"}.get(self.workflow.next_step_name or "", "go"), None)

    @rule(act=st.sampled_from(sorted(ACTS)), which=st.integers(0, 30))
    def run_a_job_that_comes_late_or_twice(self, act: str, which: int) -> None:
        ids = db.session.scalars(select(step_executions.c.id).order_by(step_executions.c.id)).all()
        self._run(ids[which % len(ids)], act, None)

    @rule(name=st.sampled_from(SIGNALS), key=st.sampled_from([None, "a", "b"]))
    def send_a_signal(self, name: str, key: str | None) -> None:
        with suppress(WorkflowNotOngoing):
            send(self.workflow_id, name, key)

    @precondition(lambda self: self.workflow.state == "paused")
    @rule()
    def resume(self) -> None:
        self._act_on_it(lambda workflow: workflow.resume())

    @rule(name=st.sampled_from(["pause", "pause", "resume", "skip", "skip", "cancel"]))
    def press(self, name: str) -> None:
        self._act_on_it(lambda workflow: getattr(workflow, name)())

    @rule(step_name=st.sampled_from([*STEPS, "six"]))
    def resume_at(self, step_name: str) -> None:
        self._act_on_it(lambda workflow: workflow.resume_at(step_name))

    @rule(version=st.sampled_from(VERSIONS))
    def deploy(self, version: type[Workflow[Any]]) -> None:
        """The class of all rows is another from now on, and the workers that know it keep house."""
        db.session.rollback()
        db.session.execute(update(workflows).values(type=version.definition.name))
        db.session.commit()
        db.session.remove()
        self.version = version
        self.extension.run_housekeeping()

    @rule()
    def let_the_deadline_pass(self) -> None:
        waiting = step_executions.c.state == "waiting"
        db.session.execute(
            update(step_executions)
            .where(waiting, step_executions.c.deadline_at.is_not(None))
            .values(deadline_at=ago(hours=1))
        )
        db.session.commit()

    @rule()
    def keep_house(self) -> None:
        self.extension.run_housekeeping()

    @precondition(lambda self: self.workflow.state == "performing")
    @rule()
    def recover(self) -> None:
        """There is one process, so that whatever is in progress between two moves is dead."""
        db.session.execute(
            update(step_executions).where(step_executions.c.state == "in_progress").values(started_at=ago(days=1))
        )
        db.session.commit()
        self.extension.run_housekeeping()
        assert self.workflow.state != "performing"

    # -- what must hold

    @invariant()
    def nothing_is_broken(self) -> None:
        if hasattr(self, "order_id"):
            assert broken() == []

    @invariant()
    def history_stays_as_it_was(self) -> None:
        if not hasattr(self, "order_id"):
            return
        ended = step_executions.c.finished_at.is_not(None)
        columns = [step_executions.c[name] for name in ("state", "outcome", "step_name", "cursor_value", "finished_at")]
        now = {
            row[0]: tuple(row[1:]) for row in db.session.execute(select(step_executions.c.id, *columns).where(ended))
        }
        db.session.rollback()
        assert {key: now.get(key) for key in self.ended} == self.ended
        self.ended = now

    def teardown(self) -> None:
        Script.act = None
        db.session.rollback()

    # -- how

    @property
    def workflow(self) -> Workflow[Any]:
        db.session.rollback()
        db.session.expire_all()
        return db.session.get_one(Workflow, self.workflow_id)

    def _run_what_comes(self, act: str, moment: int | None, **options: Any) -> None:
        current = self.workflow.current_execution
        if current is not None:
            self._run(current.id, act, moment, **options)

    def _run(self, execution_id: int, act: str, moment: int | None, **options: Any) -> None:
        Script.act = ACTS[act]
        try:
            with dying_at(moment or 0):
                run_job(execution_id, **options)
        finally:
            Script.act = None

    def _act_on_it(self, action: Callable[[Workflow[Any]], Any]) -> None:
        workflow = self.workflow
        try:
            action(workflow)
        except (InvalidStateError, StepNotDefinedError):
            db.session.rollback()
            with nothing_written(), suppress(InvalidStateError, StepNotDefinedError):
                action(self.workflow)
        db.session.commit()


EXAMPLES = {"sqlite": 40, "postgresql": 10, "mariadb": 8, "mysql": 8}


def test_whatever_happens_in_whatever_order(app: Flask, extension: Geneva, database_kind: str) -> None:
    machine = type("Life", (Life,), {"extension": extension})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES[database_kind],
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_invariants_can_be_broken(app: Flask) -> None:
    order = Order()
    db.session.add(order)
    workflow = FirstVersion.create(hero=order)
    db.session.commit()
    assert broken() == []

    db.session.execute(update(step_executions).values(state="completed", outcome="success", finished_at=ago(hours=1)))
    db.session.commit()
    assert broken() == [f"workflow #{workflow.id}: is ready, and nothing is open, so that it is stuck"]

    db.session.execute(update(workflows).values(state="performing"))
    db.session.commit()
    assert len(broken()) == 2
    assert db.session.scalars(select(StepExecution)).one().state == "completed"
