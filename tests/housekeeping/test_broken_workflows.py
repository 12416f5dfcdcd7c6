"""Workflows whose rows do not fit together go on, or stop with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from rq.executions import Execution
from rq.job import Job
from sqlalchemy import delete, update

from flask_geneva import Geneva, Workflow
from flask_geneva.records.tables import step_executions, workflows
from tests.harness.redis_servers import TestRedis
from tests.housekeeping.workflows import (
    CountedKeeping,
    Errand,
    OverGraves,
    Parked,
    ago,
    begin_by_hand,
    create,
    newest_of,
    story_of,
    write_execution,
    write_workflow,
)

Burst = Callable[..., None]
Ledger = Callable[[Any], list[str]]


def delete_executions(db: SQLAlchemy, workflow: Workflow[Any]) -> None:
    db.session.execute(delete(step_executions).where(step_executions.c.workflow_id == workflow.id))
    db.session.commit()


@pytest.mark.parametrize("state", ["ready", "performing"])
def test_a_workflow_without_an_open_step_goes_on_with_its_next_one(
    state: str, queueing_app: Flask, extension: Geneva, burst: Burst, ledger: Ledger
) -> None:
    """B-04"""
    workflow = create(Errand)
    write_execution(workflow, state="completed", outcome="success", finished_at=ago(minutes=1))
    write_workflow(workflow, state=state, next_step_name="second")

    summary = extension.run_housekeeping()
    burst()

    assert summary.workflows_rescheduled == 1
    assert ledger(workflow) == ["second"]


def test_a_workflow_without_any_row_begins(
    queueing_app: Flask, extension: Geneva, db: SQLAlchemy, burst: Burst, ledger: Ledger
) -> None:
    workflow = create(Errand)
    delete_executions(db, workflow)
    write_workflow(workflow, next_step_name=None)

    extension.run_housekeeping()
    burst()

    assert ledger(workflow) == ["first", "second"]


def test_a_workflow_that_has_done_its_last_step_is_finished(queueing_app: Flask, extension: Geneva) -> None:
    workflow = create(CountedKeeping)
    write_execution(workflow, state="completed", outcome="success", finished_at=ago(minutes=1))
    write_workflow(workflow, state="performing", next_step_name=None)

    extension.run_housekeeping()

    assert workflow.state == "finished"


def test_a_resumable_step_without_an_open_row_goes_on_from_its_cursor(
    queueing_app: Flask, extension: Geneva, burst: Burst, ledger: Ledger
) -> None:
    workflow = create(CountedKeeping)
    write_execution(workflow, state="completed", outcome="continued", cursor_value=3, completed_iterations=3)

    extension.run_housekeeping()
    burst()

    assert ledger(workflow) == ["count 3", "count 4"]


def test_a_workflow_whose_next_step_is_unknown_is_paused_with_the_reason(
    queueing_app: Flask, extension: Geneva, db: SQLAlchemy
) -> None:
    workflow = create(Errand)
    delete_executions(db, workflow)
    write_workflow(workflow, next_step_name="renamed")

    extension.run_housekeeping()

    assert workflow.state == "paused"
    assert story_of(workflow) == [("renamed", "failed", "failed")]
    assert "'renamed' is not defined in Errand" in (newest_of(workflow).error_message or "")


def test_a_workflow_whose_class_is_gone_is_paused_with_the_reason(
    queueing_app: Flask, extension: Geneva, db: SQLAlchemy
) -> None:
    workflow_id = create(Errand).id
    stranded = db.session.get(Workflow, workflow_id)
    delete_executions(db, stranded)
    write_workflow(stranded, type="Vanished")
    db.session.expunge_all()

    extension.run_housekeeping()

    stranded = db.session.get(Workflow, workflow_id)
    assert stranded.state == "paused"
    assert newest_of(stranded).error_class_name == "WorkflowNotDefinedError"


def test_a_paused_workflow_without_an_open_step_is_left_alone(
    queueing_app: Flask, extension: Geneva, db: SQLAlchemy
) -> None:
    workflow = create(Errand)
    delete_executions(db, workflow)
    write_workflow(workflow, state="paused")

    assert not any(extension.run_housekeeping().as_dict().values())
    assert story_of(workflow) == []


def test_a_step_that_is_parked_on_a_gravestone_is_passed_over(
    queueing_app: Flask, extension: Geneva, burst: Burst, ledger: Ledger
) -> None:
    workflow = create(OverGraves)
    burst()
    write_execution(workflow, step_name="payment")

    summary = extension.run_housekeeping()
    burst()

    assert summary.gravestones_released == 1
    assert story_of(workflow)[0] == ("payment", "skipped", "skipped")
    assert ledger(workflow) == ["after"]


def deploy(db: SQLAlchemy, workflow_id: int, type_name: str, **columns: Any) -> Workflow[Any]:
    """Another version of the class stands behind the row from now on."""
    db.session.rollback()
    db.session.execute(update(workflows).where(workflows.c.id == workflow_id).values(type=type_name, **columns))
    db.session.commit()
    db.session.remove()
    return db.session.get_one(Workflow, workflow_id)


def test_a_step_that_is_parked_though_it_needs_no_signal_any_more_runs(
    queueing_app: Flask, extension: Geneva, db: SQLAlchemy, burst: Burst, ledger: Ledger
) -> None:
    workflow_id = create(OverGraves).id
    burst()
    workflow = deploy(db, workflow_id, "Errand", next_step_name="first")
    write_execution(workflow, step_name="first")

    summary = extension.run_housekeeping()
    burst()

    assert summary.parked_steps_released == 1
    assert ledger(workflow) == ["first", "second"]


def test_a_step_that_is_parked_beside_its_signal_takes_it(
    queueing_app: Flask, extension: Geneva, db: SQLAlchemy, burst: Burst, ledger: Ledger
) -> None:
    """The signal came while a deploy that was taken back had no use for it."""
    workflow_id = create(Parked).id
    burst()
    deploy(db, workflow_id, "Errand").signal("paid")
    db.session.commit()
    workflow = deploy(db, workflow_id, "Parked")

    summary = extension.run_housekeeping()
    burst()

    assert summary.parked_steps_released == 1
    assert ledger(workflow) == ["payment", "thanks"]
    assert [str(signal.state) for signal in workflow.signals] == ["consumed"]


def test_a_step_that_is_parked_beside_another_signal_waits_on(
    queueing_app: Flask, extension: Geneva, db: SQLAlchemy, burst: Burst
) -> None:
    workflow = create(Parked)
    burst()
    workflow.signal("refunded")
    db.session.commit()

    assert not any(extension.run_housekeeping().as_dict().values())
    assert story_of(workflow) == [("payment", "waiting", None)]


def test_a_gravestone_holds_a_paused_workflow_until_it_is_resumed(
    queueing_app: Flask, extension: Geneva, db: SQLAlchemy, burst: Burst
) -> None:
    workflow = create(OverGraves)
    burst()
    workflow.pause()
    write_execution(workflow, step_name="payment")

    assert extension.run_housekeeping().gravestones_released == 0


@pytest.mark.parametrize("state", ["finished", "canceled"])
@pytest.mark.parametrize("workflow_class", [Errand, Parked])
def test_what_is_open_in_an_ended_workflow_is_closed(
    state: str, workflow_class: type[Workflow[Any]], queueing_app: Flask, extension: Geneva, burst: Burst
) -> None:
    """B-14"""
    workflow = create(workflow_class)
    if workflow_class is Parked:
        burst()
    write_workflow(workflow, state=state, transitioned_at=ago(minutes=1))

    summary = extension.run_housekeeping()

    assert summary.strays_closed == 1
    assert story_of(workflow)[0][1:] == ("canceled", "canceled")
    assert workflow.state == state


def test_a_step_that_still_runs_in_an_ended_workflow_is_left_to_its_end(queueing_app: Flask, extension: Geneva) -> None:
    workflow = create(Errand)
    begin_by_hand(workflow)
    write_workflow(workflow, state="canceled", transitioned_at=ago(minutes=1))
    with extension.redis.pipeline() as pipeline:
        Execution.create(Job.fetch(newest_of(workflow).job_id, connection=extension.redis), 90, pipeline)
        pipeline.execute()

    assert extension.run_housekeeping().strays_closed == 0
    assert newest_of(workflow).state == "in_progress"


@pytest.mark.parametrize("app_config", [{"GENEVA_HOUSEKEEPING_BATCH_SIZE": 1}])
def test_each_run_goes_on_where_the_last_one_stopped(queueing_app: Flask, extension: Geneva) -> None:
    workflows = [create(Parked) for _ in range(5)]
    for workflow in workflows:
        write_workflow(workflow, state="finished", transitioned_at=ago(minutes=1))

    assert [extension.run_housekeeping().strays_closed for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.parametrize("app_config", [{"GENEVA_HOUSEKEEPING_BATCH_SIZE": 1}])
def test_a_redis_that_lost_its_memory_lets_the_walk_begin_again(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis
) -> None:
    for workflow in [create(Parked) for _ in range(3)]:
        write_workflow(workflow, state="finished", transitioned_at=ago(minutes=1))
    extension.run_housekeeping()
    redis_server.flush()

    assert [extension.run_housekeeping().strays_closed for _ in range(2)] == [0, 1]
