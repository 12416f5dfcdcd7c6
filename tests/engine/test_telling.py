"""What subscribers hear of a step: which events, in which order, with which facts, and when nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, text

from flask_geneva import IterableStep, Workflow, events, removed_step, resumable_step, step
from tests.engine.elsewhere import Plan, elsewhere
from tests.engine.flows import Boom, PauseFlow, PlainFlow, PlannedFlow, boom, run_job, start
from tests.harness.models import Order, db, write_down
from tests.housekeeping.workflows import write_execution

STEP_EVENTS = ("precondition_evaluated", "step_started", "step_finished")

Heard = list[tuple[str, dict[str, Any]]]


class ToldLoopFlow(Workflow[Order]):
    """A resumable step that stops itself after an item."""

    @resumable_step(max_iterations=1)
    def count(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(2)):
            write_down(self, str(number))


class ToldWaitFlow(Workflow[Order]):
    """Waits for a signal."""

    @step(wait_for="go")
    def one(self) -> None:
        write_down(self)


class ToldGraveFlow(Workflow[Order]):
    """Its first step was removed by a deploy."""

    capture = removed_step()

    @step
    def two(self) -> None:
        """Do nothing."""


@pytest.fixture
def heard(app: Flask) -> Iterator[Heard]:
    """Every event about a step, as it came."""
    told: Heard = []

    def listener(name: str) -> Callable[..., None]:
        return lambda sender, **facts: told.append((name, facts))

    with ExitStack() as stack:
        for name in STEP_EVENTS:
            stack.enter_context(getattr(events, name).connected_to(listener(name), sender=app))
        yield told


def run_first(workflow: Workflow[Any]) -> None:
    run_job(workflow.execution_history[0].id, ignores_time=True)


def ending(heard: Heard) -> tuple[str, str, str]:
    facts = heard[-1][1]
    return str(facts["outcome"]), str(facts["step_state"]), str(facts["workflow_state"])


def test_a_step_tells_its_conditions_its_start_and_its_end(app: Flask, heard: Heard) -> None:
    # OBS-06, OBS-07, OBS-09, OBS-11
    workflow = start(PlainFlow)
    execution_id = workflow.execution_history[0].id

    run_first(workflow)

    assert [name for name, _ in heard] == list(STEP_EVENTS)
    for _, facts in heard:
        assert (facts["workflow_id"], facts["workflow_class"]) == (workflow.id, "PlainFlow")
        assert (facts["execution_id"], facts["step_name"]) == (execution_id, "one")
        assert facts["resumable"] is False
    assert heard[0][1]["outcome"] == "passed"
    assert heard[2][1]["duration"] >= 0
    assert heard[2][1]["exception"] is None


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        ("cancel", ("canceled", "canceled", "canceled")),
        ("pause", ("canceled", "canceled", "paused")),
        ("reattempt", ("reattempted", "completed", "ready")),
        ("skip", ("skipped", "skipped", "ready")),
        ("finish", ("success", "completed", "finished")),
        (None, ("success", "completed", "ready")),
    ],
)
def test_the_end_is_told_as_the_rows_have_it(
    app: Flask, plan: Plan, heard: Heard, verb: str | None, told: tuple[str, str, str]
) -> None:
    # OBS-07, OBS-08
    workflow = start(PlainFlow)
    plan["one"] = lambda running: verb and getattr(running, verb)()

    run_first(workflow)

    assert ending(heard) == told
    row = workflow.execution_history[0]
    assert (row.outcome, row.state, workflow.state) == told


def test_a_failed_step_tells_its_exception(app: Flask, plan: Plan, heard: Heard) -> None:
    # OBS-07, OBS-08
    workflow = start(PlainFlow)
    plan["one"] = boom

    run_first(workflow)

    assert ending(heard) == ("failed", "failed", "paused")
    assert isinstance(heard[-1][1]["exception"], Boom)


def test_a_part_of_a_resumable_step_says_that_it_goes_on(app: Flask, heard: Heard) -> None:
    # OBS-07, OBS-12
    run_first(start(ToldLoopFlow))

    assert ending(heard) == ("continued", "completed", "ready")
    assert [facts["resumable"] for _, facts in heard] == [True, True, True]


@pytest.mark.parametrize(("condition", "told"), [("skip_if", "skipped"), ("cancel_if", "canceled")])
def test_a_step_that_its_conditions_end_tells_only_them(
    app: Flask, plan: Plan, heard: Heard, condition: str, told: str
) -> None:
    # OBS-06, OBS-10
    plan[condition] = lambda running: True

    run_first(start(PlannedFlow))

    assert [(name, facts["outcome"]) for name, facts in heard] == [("precondition_evaluated", told)]


def test_conditions_that_fail_tell_their_exception(app: Flask, plan: Plan, heard: Heard) -> None:
    # OBS-06, OBS-10
    plan["skip_if"] = boom

    run_first(start(PauseFlow))

    ((name, facts),) = heard
    assert (name, facts["outcome"]) == ("precondition_evaluated", "exception")
    assert isinstance(facts["exception"], Boom)


def test_a_step_that_parks_tells_that_its_conditions_passed(app: Flask, heard: Heard) -> None:
    # OBS-13
    run_first(start(ToldWaitFlow))

    assert [(name, facts["outcome"]) for name, facts in heard] == [("precondition_evaluated", "passed")]


def test_nothing_is_told_of_a_step_that_is_not_there(app: Flask, heard: Heard) -> None:
    # OBS-14
    workflow = start(PlainFlow)
    write_execution(workflow, step_name="gone")

    run_first(workflow)

    assert (heard, workflow.state) == ([], "paused")


def test_nothing_is_told_of_a_hero_that_is_not_there(app: Flask, heard: Heard) -> None:
    # OBS-14
    workflow = start(PlainFlow)
    db.session.execute(delete(Order))
    db.session.commit()

    run_first(workflow)

    assert (heard, workflow.state) == ([], "canceled")


def test_nothing_is_told_of_a_gravestone(app: Flask, heard: Heard) -> None:
    # OBS-14
    workflow = start(ToldGraveFlow)
    write_execution(workflow, step_name="capture")

    run_first(workflow)

    assert (heard, workflow.state) == ([], "ready")


def test_an_end_that_the_database_refuses_is_told_as_the_error_that_it_is(app: Flask, plan: Plan, heard: Heard) -> None:
    workflow = start(PlainFlow)
    plan["one"] = lambda running: db.session.add(Order(id=running.hero.id))

    run_first(workflow)

    assert ending(heard) == ("failed", "failed", "paused")
    assert heard[-1][1]["exception"] is not None


def test_a_step_that_was_taken_from_its_worker_does_not_tell_an_end(app: Flask, plan: Plan, heard: Heard) -> None:
    workflow = start(PlainFlow)

    def take_it(running: Any) -> None:
        with elsewhere():
            db.session.execute(text("UPDATE geneva_step_executions SET state = 'failed', outcome = 'recovered'"))
            db.session.commit()

    # Before its first write, which on SQLite would keep everybody else from writing.
    plan["before"] = lambda running, execution: take_it(running)
    workflow = start(PlannedFlow)

    run_first(workflow)

    assert [name for name, _ in heard] == ["precondition_evaluated", "step_started"]


def test_what_a_subscriber_raises_touches_nothing_else(app: Flask, plan: Plan, heard: Heard) -> None:
    def fail(sender: Flask, **facts: Any) -> None:
        raise RuntimeError("a bad subscriber")

    workflow = start(PlainFlow)
    with events.step_started.connected_to(fail), events.step_finished.connected_to(fail):
        run_first(workflow)

    assert (workflow.state, ending(heard)) == ("ready", ("success", "completed", "ready"))
