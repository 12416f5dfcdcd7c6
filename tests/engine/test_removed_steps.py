"""Gravestones: nothing lands on them any more, what stands on them is let go, and one can ask who still does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from flask_geneva import StepExecution, StepNotDefinedError, Workflow, cancel_if, events, removed_step, step
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.testing import assert_signal_state, perform_next_step, speedrun
from tests.engine.elsewhere import Ledger, Plan
from tests.engine.flows import planned, reload, run_job, start, states
from tests.harness.models import Order, db, write_down


class GravestonesFlow(Workflow[Order]):
    """Has gravestones in front, in the middle, side by side, and at the end."""

    leading = removed_step()

    @cancel_if
    def is_withdrawn(self) -> bool:
        return bool(planned("cancel_if", self))

    @step
    def one(self) -> None:
        write_down(self)

    middle = removed_step()
    beside = removed_step()

    @step(wait=timedelta(days=1))
    def two(self) -> None:
        write_down(self)

    trailing = removed_step()


class ChildGravestonesFlow(GravestonesFlow):
    """Buries a step of its parent, and puts steps beside gravestones."""

    one = removed_step()  # type: ignore[assignment]

    @step(before="middle")
    def early(self) -> None:
        write_down(self)

    @step(after="trailing")
    def late(self) -> None:
        write_down(self)


class OnlyGravestonesFlow(Workflow[Order]):
    """Has nothing left to do."""

    first = removed_step()
    second = removed_step()


class NoGravestonesFlow(Workflow[Order]):
    """Has none."""

    @step
    def one(self) -> None:
        """Do nothing."""


def put_at(workflow: Workflow[Any], step_name: str, **columns: Any) -> int:
    """Let a workflow stand at a step by a row of yesterday's code."""
    of_workflow = (step_executions.c.workflow_id == workflow.id, step_executions.c.state == "scheduled")
    db.session.execute(update(step_executions).where(*of_workflow).values(step_name=step_name, **columns))
    db.session.execute(update(workflows).where(workflows.c.id == workflow.id).values(next_step_name=step_name))
    db.session.commit()
    return workflow.execution_history[-1].id


def test_nothing_is_ever_scheduled_for_a_gravestone(app: Flask, ledger: Ledger) -> None:
    # REM-03, REM-04, REM-05
    workflow = start(GravestonesFlow)
    assert workflow.next_step_name == "one"

    speedrun(workflow)

    assert workflow.state == "finished"
    assert states(workflow) == [("one", "completed", "success"), ("two", "completed", "success")]
    assert ledger(workflow) == ["one", "two"]


def test_a_parents_step_is_buried_in_its_place_and_anchors_at_gravestones_hold(app: Flask, ledger: Ledger) -> None:
    # REM-01, REM-02
    assert list(ChildGravestonesFlow.steps) == [
        "leading", "one", "early", "middle", "beside", "two", "trailing", "late",
    ]  # fmt: skip
    assert [each.name for each in ChildGravestonesFlow.steps.removed] == [
        "leading", "one", "middle", "beside", "trailing",
    ]  # fmt: skip
    workflow = start(ChildGravestonesFlow)

    speedrun(workflow)

    assert ledger(workflow) == ["early", "two", "late"]


def test_with_only_gravestones_a_workflow_is_finished_at_once(app: Flask) -> None:
    # REM-06
    workflow = start(OnlyGravestonesFlow)

    assert (workflow.state, workflow.next_step_name, workflow.execution_history) == ("finished", None, [])


@pytest.mark.parametrize(
    ("gravestone", "follows"), [("leading", "one"), ("middle", "two"), ("beside", "two"), ("trailing", None)]
)
def test_an_execution_from_before_the_removal_is_skipped_and_the_workflow_goes_on(
    jobs: list[JobRequest], ledger: Ledger, gravestone: str, follows: str | None
) -> None:
    # REM-07, REM-08
    workflow = start(GravestonesFlow)
    execution_id = put_at(workflow, gravestone)
    del jobs[:]

    run = run_job(execution_id)

    first, *rest = reload(workflow).execution_history
    assert (first.state, first.outcome, first.finished_at) == ("skipped", "skipped", first.skipped_at)
    assert [each.step_name for each in rest] == ([follows] if follows else [])
    assert (workflow.state, workflow.next_step_name) == ("ready" if follows else "finished", follows)
    assert [job.execution_id for job in jobs] == [each.id for each in rest]
    assert (run.error_to_report, ledger(workflow)) == (None, [])
    if follows == "two":
        assert rest[0].scheduled_for - rest[0].created_at == timedelta(days=1)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("leading", None, "one"),
        ("one", None, "two"),
        ("middle", "one", "two"),
        ("beside", "one", "two"),
        ("trailing", "two", None),
    ],
)
@pytest.mark.databases("sqlite")
def test_one_can_look_across_gravestones(app: Flask, name: str, before: str | None, after: str | None) -> None:
    # REM-09
    workflow = start(GravestonesFlow)
    put_at(workflow, name)
    following = GravestonesFlow.steps.next_after(name)

    assert reload(workflow).previous_step_name == before
    assert (following.name if following else None) == after


def test_a_removal_that_was_not_declared_still_pauses(app: Flask) -> None:
    # REM-10
    workflow = start(GravestonesFlow)
    put_at(workflow, "undeclared")

    with pytest.raises(StepNotDefinedError):
        perform_next_step(workflow)

    assert workflow.state == "paused"


def test_who_stands_at_gravestones_can_be_counted(app: Flask) -> None:
    # REM-11, B-35
    assert GravestonesFlow.removed_steps_in_flight() == {}
    for _ in range(3):
        put_at(start(GravestonesFlow), "middle")
    put_at(start(GravestonesFlow), "trailing")
    for verb in ("cancel", "pause"):
        workflow = start(GravestonesFlow)
        put_at(workflow, "beside")
        getattr(workflow, verb)()
        db.session.commit()

    assert GravestonesFlow.removed_steps_in_flight() == {"middle": 3, "trailing": 1, "beside": 1}


def test_a_paused_workflow_that_only_points_at_a_gravestone_is_counted_once(app: Flask) -> None:
    # REM-11, B-35
    workflow = start(GravestonesFlow)
    execution_id = put_at(workflow, "middle")
    workflow.pause()
    db.session.commit()
    assert GravestonesFlow.removed_steps_in_flight() == {"middle": 1}

    run_job(execution_id)

    assert states(reload(workflow)) == [("middle", "canceled", "canceled")]
    assert GravestonesFlow.removed_steps_in_flight() == {"middle": 1}


@pytest.mark.parametrize("state", ["completed", "skipped", "failed", "canceled"])
def test_history_is_not_counted(app: Flask, state: str) -> None:
    # REM-12, B-35
    workflow = start(GravestonesFlow)
    db.session.execute(update(step_executions).values(state=state, step_name="middle"))
    db.session.commit()
    workflow.pause()
    workflow.resume()
    db.session.commit()

    assert workflow.execution_history[-1].step_name == "one"
    assert GravestonesFlow.removed_steps_in_flight() == {}


def test_what_waits_or_runs_at_a_gravestone_is_counted(app: Flask) -> None:
    # REM-11
    for state, of_workflow in (("waiting", "ready"), ("in_progress", "performing")):
        workflow = start(GravestonesFlow)
        put_at(workflow, "middle", state=state)
        db.session.execute(update(workflows).where(workflows.c.id == workflow.id).values(state=of_workflow))
    db.session.commit()

    assert GravestonesFlow.removed_steps_in_flight() == {"middle": 2}


def test_the_count_is_of_the_class_and_its_subclasses(app: Flask) -> None:
    # REM-13
    put_at(start(GravestonesFlow), "middle")
    put_at(start(ChildGravestonesFlow), "middle")
    put_at(start(ChildGravestonesFlow), "one")

    assert ChildGravestonesFlow.removed_steps_in_flight() == {"middle": 1, "one": 1}
    assert GravestonesFlow.removed_steps_in_flight() == {"middle": 2}
    assert NoGravestonesFlow.removed_steps_in_flight() == {}


def test_no_condition_is_asked_at_a_gravestone(app: Flask, plan: Plan) -> None:
    # REM-14
    plan["cancel_if"] = lambda workflow: True
    workflow = start(GravestonesFlow)

    run_job(put_at(workflow, "middle"))

    assert states(reload(workflow)) == [("middle", "skipped", "skipped"), ("two", "scheduled", None)]


def test_but_a_hero_that_is_gone_comes_first(app: Flask) -> None:
    # REM-14
    workflow = start(GravestonesFlow)
    execution_id = put_at(workflow, "middle")
    db.session.delete(workflow.hero)
    db.session.commit()

    run_job(execution_id)

    assert (reload(workflow).state, states(workflow)) == ("canceled", [("middle", "canceled", "canceled")])


@pytest.mark.parametrize(("gravestone", "follows"), [("middle", "two"), ("trailing", None)])
def test_a_row_that_is_parked_on_a_gravestone_is_released_by_resume(
    jobs: list[JobRequest], gravestone: str, follows: str | None
) -> None:
    # REM-15, OPS-33, OPS-40, B-31
    workflow, told = start(GravestonesFlow), []
    put_at(workflow, gravestone, state="waiting")
    workflow.pause()
    workflow.signal("go")
    db.session.commit()
    del jobs[:]

    def listen(sender: Flask, **facts: Any) -> None:
        told.append(facts["workflow_id"])

    with events.workflow_finished.connected_to(listen):
        resumed = workflow.resume()
        db.session.commit()

    first, *rest = workflow.execution_history
    assert (first.state, first.outcome) == ("skipped", "skipped")
    assert [each.step_name for each in rest] == ([follows] if follows else [])
    assert [resumed] == (rest or [None])
    assert workflow.state == ("ready" if follows else "finished")
    assert [job.execution_id for job in jobs] == [each.id for each in rest]
    assert told == ([] if follows else [workflow.id])
    assert_signal_state(workflow, "go", "pending")


@pytest.mark.parametrize(("gravestone", "follows"), [("middle", "two"), ("trailing", None)])
def test_a_paused_workflow_that_points_at_a_gravestone_resumes_behind_it(
    app: Flask, gravestone: str, follows: str | None
) -> None:
    # B-47
    workflow = start(GravestonesFlow)
    execution_id = put_at(workflow, gravestone)
    workflow.pause()
    db.session.commit()
    run_job(execution_id)

    reload(workflow).resume()

    assert [name for name, _, _ in states(workflow)] == [gravestone, *([follows] if follows else [])]
    assert workflow.state == ("ready" if follows else "finished")


def test_a_scheduled_row_at_a_gravestone_goes_by_its_job_after_a_resume(app: Flask, ledger: Ledger) -> None:
    workflow = start(GravestonesFlow)
    put_at(workflow, "middle")
    workflow.pause()
    workflow.resume()

    speedrun(workflow)

    assert ledger(workflow) == ["two"]
    assert states(workflow)[0] == ("middle", "skipped", "skipped")


def test_a_gravestone_settles_the_signal_that_a_row_brought_along(app: Flask) -> None:
    workflow = start(GravestonesFlow)
    signal = workflow.signal("go")
    execution_id = put_at(workflow, "middle", signal_id=signal.id)
    db.session.execute(signal.__table__.update().values(state="claimed", claimed=1))
    db.session.commit()

    run_job(execution_id)

    reload(workflow)
    assert_signal_state(workflow, "go", "consumed")


def test_a_step_that_ends_while_it_stands_before_gravestones_finishes(app: Flask) -> None:
    # REM-04, REM-08
    workflow = start(GravestonesFlow)
    workflow.skip()
    workflow.skip()

    assert (workflow.state, [each.step_name for each in workflow.step_executions]) == ("finished", ["one", "two"])


def test_no_row_ever_names_a_gravestone(app: Flask) -> None:
    # REM-03
    for _ in range(2):
        speedrun(start(GravestonesFlow))
    speedrun(start(ChildGravestonesFlow))

    names = set(db.session.scalars(db.select(StepExecution.step_name)))
    assert names == {"one", "two", "early", "late"}
