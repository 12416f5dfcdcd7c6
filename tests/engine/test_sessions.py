"""A step's writes commit with its ending or not at all, and sessions that are not ``db.session`` serve as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import event
from sqlalchemy.orm import Session

from flask_geneva import InvalidStateError, IterableStep, StepTimeout, Workflow, resumable_step, step
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.testing import speedrun
from tests.engine.flows import PLAN, Boom, HandledFlow, PlainFlow, PlannedFlow, reload, run_job, start, states
from tests.harness.models import Order, db, write_down, written_down

Plan = dict[str, Callable[..., Any]]


class StrayingPagesFlow(Workflow[Order]):
    """A resumable step of three items, and a step after it."""

    @resumable_step
    def one(self, it: IterableStep) -> None:
        for item in it.iterate_over(["a", "b", "c"]):
            write_down(self, item)
            PLAN.get("item", lambda *_: None)(self, item)

    @step
    def two(self) -> None:
        write_down(self)


def remove_and_write(workflow: Any, *_: Any) -> None:
    """Let ``db.session`` go, as a helper may that was written for a request's end, and write on."""
    db.session.remove()
    workflow.hero.state = "written elsewhere"
    db.session.flush()


def ending(workflow: Workflow[Any]) -> tuple[str, str | None]:
    """The workflow's state, and the error of its newest execution."""
    found = reload(workflow)
    return found.state, found.execution_history[-1].error_message


@pytest.mark.parametrize("verb", [None, "skip", "cancel", "pause", "finish", "reattempt"])
def test_what_a_step_writes_after_it_removed_the_session_is_an_error_of_the_step(
    app: Flask, plan: Plan, verb: str | None
) -> None:
    def misbehave(workflow: Any) -> None:
        remove_and_write(workflow)
        if verb is not None:
            getattr(workflow, verb)()

    plan["one"] = misbehave
    workflow = start(PlainFlow)

    with pytest.raises(InvalidStateError, match=r"db\.session\.remove\(\)"):
        speedrun(workflow)

    assert states(workflow) == [("one", "failed", "failed")]
    assert (ending(workflow)[0], workflow.hero.state, written_down(workflow.id)) == ("paused", "placed", [])


def test_a_session_that_was_removed_and_not_used_again_does_no_harm(app: Flask, plan: Plan) -> None:
    plan["one"] = lambda workflow: db.session.remove()
    workflow = start(PlainFlow)

    speedrun(workflow)

    assert states(workflow) == [("one", "completed", "success"), ("two", "completed", "success")]
    assert written_down(workflow.id) == ["two"]


def test_the_error_of_a_step_that_removed_the_session_is_its_own(app: Flask, plan: Plan) -> None:
    def misbehave(workflow: Any) -> None:
        remove_and_write(workflow)
        raise Boom("bang")

    plan["one"] = misbehave
    workflow = start(PlainFlow)

    speedrun(workflow, raise_errors=False)

    assert ending(workflow) == ("paused", "bang")
    assert workflow.hero.state == "placed"


def test_a_handler_that_removed_the_session_pauses_the_workflow(app: Flask, plan: Plan) -> None:
    def decide(workflow: Any, *_: Any) -> None:
        remove_and_write(workflow)
        workflow.skip()

    plan["one"] = lambda workflow: (_ for _ in ()).throw(Boom("bang"))
    plan["handler"] = decide
    workflow = start(HandledFlow)

    speedrun(workflow, raise_errors=False)

    assert ending(workflow) == ("paused", "bang")
    assert workflow.hero.state == "placed"


def test_a_condition_that_removed_the_session_is_an_error_of_its_step(app: Flask, plan: Plan) -> None:
    plan["skip_if"] = remove_and_write
    workflow = start(PlannedFlow)

    speedrun(workflow, raise_errors=False)

    state, message = ending(workflow)
    assert state == "paused"
    assert message is not None
    assert "db.session.remove()" in message
    assert workflow.hero.state == "placed"


def test_a_resumable_step_that_removed_the_session_keeps_its_last_checkpoint(app: Flask, plan: Plan) -> None:
    plan["item"] = lambda workflow, item: remove_and_write(workflow) if item == "b" else None
    workflow = start(StrayingPagesFlow)

    speedrun(workflow, raise_errors=False)
    plan["item"] = lambda workflow, item: None
    workflow.resume()
    speedrun(workflow)

    assert workflow.hero.state == "placed"
    assert written_down(workflow.id) == ["a", "b", "c", "two"]


def test_a_verb_on_an_object_of_another_session_sends_its_job(app: Flask, jobs: list[JobRequest]) -> None:
    workflow = start(PlainFlow)
    workflow.pause()
    db.session.commit()
    jobs.clear()

    with Session(db.engine) as session:
        same = session.get_one(PlainFlow, workflow.id)
        execution = same.resume()
        assert execution is not None
        assert jobs == []
        session.commit()
        assert [job.execution_id for job in jobs] == [execution.id]


def test_the_hero_is_found_through_another_session(app: Flask) -> None:
    workflow = start(PlainFlow)

    with Session(db.engine) as session:
        hero = session.get_one(PlainFlow, workflow.id).hero

        assert isinstance(hero, Order)
        assert hero in session


def test_the_connection_of_a_step_that_ran_too_long_is_not_used_again(
    app: Flask, plan: Plan, ledger: Callable[[Any], list[str]]
) -> None:
    # The timeout may have come in the middle of a message to the database.
    invalidated: list[Any] = []

    def run_too_long(workflow: Any) -> None:
        db.session.flush()
        raise StepTimeout("too slow")

    plan["one"] = run_too_long
    workflow = start(PlainFlow)
    with listening(db.engine, "invalidate", lambda connection, *_: invalidated.append(connection)):
        run_job(workflow.execution_history[0].id)

    assert len(invalidated) == 1
    assert (reload(workflow).state, ledger(workflow)) == ("paused", [])


@contextmanager
def listening(target: Any, name: str, listener: Callable[..., None]) -> Iterator[None]:
    """Hear of an event of SQLAlchemy's within the block."""
    event.listen(target, name, listener)
    try:
        yield
    finally:
        event.remove(target, name, listener)
