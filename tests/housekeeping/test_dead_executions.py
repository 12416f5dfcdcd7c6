"""A step in progress is recovered when its worker is dead, and never while it lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from rq.executions import Execution
from rq.job import Job, JobStatus

from flask_geneva import Geneva, Workflow
from flask_geneva.worker.liveness import running_key
from tests.housekeeping.workflows import (
    CountedKeeping,
    Errand,
    Stubborn,
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


def test_a_step_whose_job_nobody_knows_is_run_again_after_the_threshold(
    queueing_app: Flask, extension: Geneva, burst: Burst, ledger: Ledger
) -> None:
    """HSK-09"""
    workflow = create(Errand)
    begin_by_hand(workflow, job_id="nobody")

    summary = extension.run_housekeeping()

    assert summary.stuck_in_progress_recovered == 1
    assert workflow.state == "ready"
    assert story_of(workflow) == [("first", "completed", "recovered"), ("first", "scheduled", None)]
    burst()
    assert ledger(workflow) == ["first", "second"]


def test_a_recovered_step_says_why(queueing_app: Flask, extension: Geneva) -> None:
    workflow = create(Errand)
    begin_by_hand(workflow, job_id="nobody")

    extension.run_housekeeping()

    noted = workflow.execution_history[0].details["exception"]
    assert noted["class"] == "WorkerDied"
    assert "worker process died, or so it seems: the queue does not know its job" in noted["message"]


def test_a_step_whose_job_nobody_knows_is_left_alone_before_the_threshold(
    queueing_app: Flask, extension: Geneva
) -> None:
    """HSK-11"""
    workflow = create(Errand)
    begin_by_hand(workflow, job_id="nobody", started_at=ago(minutes=30))

    assert extension.run_housekeeping().stuck_in_progress_recovered == 0
    assert workflow.state == "performing"


def test_a_step_whose_job_failed_is_recovered_at_once(queueing_app: Flask, extension: Geneva) -> None:
    """B-10"""
    workflow = create(Errand)
    begin_by_hand(workflow, started_at=ago(seconds=1))
    job_of(workflow, extension).set_status(JobStatus.FAILED)

    assert extension.run_housekeeping().stuck_in_progress_recovered == 1


def test_a_step_whose_heart_has_stopped_is_recovered_at_once(queueing_app: Flask, extension: Geneva) -> None:
    """B-09: liveness is asked of the queue, not of the clock."""
    workflow = create(Errand)
    begin_by_hand(workflow, started_at=ago(seconds=1))
    beat_as_rq_does(workflow, extension, seconds=0)

    assert extension.run_housekeeping().stuck_in_progress_recovered == 1


def test_a_step_whose_heart_beats_is_never_recovered(queueing_app: Flask, extension: Geneva) -> None:
    """HSK-14 (B-09)"""
    workflow = create(Errand)
    begin_by_hand(workflow, started_at=ago(days=3))
    beat_as_rq_does(workflow, extension, seconds=90)

    assert extension.run_housekeeping().stuck_in_progress_recovered == 0
    assert newest_of(workflow).state == "in_progress"


def test_a_step_that_ran_on_when_redis_lost_its_memory_is_not_recovered(queueing_app: Flask, extension: Geneva) -> None:
    workflow = create(Errand)
    begin_by_hand(workflow, job_id="forgotten", started_at=ago(days=3))
    extension.redis.set(running_key("forgotten"), "worker", ex=90)

    assert extension.run_housekeeping().stuck_in_progress_recovered == 0


def test_nothing_is_recovered_while_redis_does_not_answer(
    build_app: Callable[..., Flask], extension: Geneva, caplog: pytest.LogCaptureFixture
) -> None:
    app = build_app("redis://127.0.0.1:1/0")
    with app.app_context():
        workflow = create(Errand)
        begin_by_hand(workflow)

        summary = extension.run_housekeeping()

        assert summary.stuck_in_progress_recovered == 0
        assert summary.failures > 0
        assert newest_of(workflow).state == "in_progress"


@pytest.mark.parametrize("app_config", [{"GENEVA_STUCK_RECOVERY_ACTION": "cancel"}])
def test_the_application_can_have_dead_steps_canceled(queueing_app: Flask, extension: Geneva) -> None:
    """HSK-10"""
    workflow = create(Errand)
    begin_by_hand(workflow, job_id="nobody")

    extension.run_housekeeping()

    assert story_of(workflow) == [("first", "canceled", "recovered")]
    assert workflow.state == "canceled"
    assert workflow.transitioned_at is not None


@pytest.mark.parametrize("app_config", [{"GENEVA_STUCK_RECOVERY_ACTION": "pause"}])
def test_the_application_can_have_dead_steps_paused(
    queueing_app: Flask, extension: Geneva, db: Any, burst: Burst, ledger: Ledger
) -> None:
    workflow = create(Errand)
    begin_by_hand(workflow, job_id="nobody")

    extension.run_housekeeping()

    assert story_of(workflow) == [("first", "failed", "failed")]
    assert workflow.execution_history[0].error_class_name == "WorkerDied"
    assert workflow.state == "paused"
    workflow.resume()
    db.session.commit()
    burst()
    assert ledger(workflow) == ["first", "second"]


def test_a_resumable_step_goes_on_from_its_cursor(
    queueing_app: Flask, extension: Geneva, burst: Burst, ledger: Ledger
) -> None:
    """HSK-12, RES-63"""
    workflow = create(CountedKeeping)
    begin_by_hand(workflow, job_id="nobody", cursor_value=2, completed_iterations=2)
    dead = newest_of(workflow).id

    extension.run_housekeeping()

    assert newest_of(workflow).continues_from_id == dead
    burst()
    assert ledger(workflow) == ["count 2", "count 3", "count 4"]


def test_the_third_death_in_a_row_pauses(queueing_app: Flask, extension: Geneva) -> None:
    """B-30"""
    workflow = create(Errand)

    for _ in range(3):
        begin_by_hand(workflow, job_id="nobody")
        extension.run_housekeeping()

    assert [outcome for _, _, outcome in story_of(workflow)] == ["recovered", "recovered", "failed"]
    assert workflow.state == "paused"
    assert "3 deaths of this step in a row" in (newest_of(workflow).error_message or "")


def test_a_limit_of_the_step_counts_deaths_too(queueing_app: Flask, extension: Geneva) -> None:
    workflow = create(Stubborn)

    for _ in range(2):
        begin_by_hand(workflow, job_id="nobody")
        extension.run_housekeeping()

    assert [outcome for _, _, outcome in story_of(workflow)] == ["recovered", "failed"]
    assert workflow.state == "paused"


def test_a_resumable_step_that_moved_on_before_it_died_begins_a_new_row(queueing_app: Flask, extension: Geneva) -> None:
    workflow = create(CountedKeeping)

    for cursor in (1, 2, 3, 4):
        begin_by_hand(workflow, job_id="nobody", cursor_value=cursor, completed_iterations=1)
        extension.run_housekeeping()

    assert workflow.state == "ready"
    assert newest_of(workflow).death_reattempts == 1


def test_a_pause_that_was_asked_for_is_kept(queueing_app: Flask, extension: Geneva) -> None:
    workflow = create(Errand)
    begin_by_hand(workflow, job_id="nobody")
    write_workflow(workflow, pending_request="pause")

    extension.run_housekeeping()

    assert workflow.state == "paused"
    assert story_of(workflow) == [("first", "completed", "recovered"), ("first", "scheduled", None)]
    assert newest_of(workflow).job_id not in extension.queue().job_ids


def test_a_cancel_that_was_asked_for_is_kept(queueing_app: Flask, extension: Geneva) -> None:
    workflow = create(Errand)
    begin_by_hand(workflow, job_id="nobody")
    write_workflow(workflow, pending_request="cancel")

    extension.run_housekeeping()

    assert workflow.state == "canceled"
    assert story_of(workflow) == [("first", "completed", "recovered")]


def test_a_paused_workflow_is_left_alone(queueing_app: Flask, extension: Geneva) -> None:
    """B-25"""
    workflow = create(Errand)
    begin_by_hand(workflow, job_id="nobody")
    write_workflow(workflow, state="paused")

    assert not any(extension.run_housekeeping().as_dict().values())
    assert story_of(workflow) == [("first", "in_progress", None)]


def test_the_step_of_a_class_that_is_gone_is_recovered(
    queueing_app: Flask, extension: Geneva, db: Any, burst: Burst
) -> None:
    """B-15: what cannot be run must not be met for ever."""
    workflow = create(Errand)
    begin_by_hand(workflow, job_id="nobody")
    workflow_id = workflow.id
    write_workflow(workflow, type="Vanished")
    db.session.expunge_all()

    extension.run_housekeeping()
    burst()

    stranded = db.session.get(Workflow, workflow_id)
    assert stranded.state == "paused"
    assert newest_of(stranded).error_class_name == "WorkflowNotDefinedError"


@pytest.mark.parametrize("app_config", [{"GENEVA_HOUSEKEEPING_BATCH_SIZE": 2}])
def test_all_batches_are_recovered_and_fresh_rows_are_not(queueing_app: Flask, extension: Geneva) -> None:
    """HSK-13"""
    dead = [create(Errand) for _ in range(5)]
    fresh = [create(Errand) for _ in range(2)]
    for workflow in (*dead[:3], *fresh, *dead[3:]):
        started = ago(hours=2) if workflow in dead else ago(minutes=5)
        begin_by_hand(workflow, job_id="nobody", started_at=started)

    assert extension.run_housekeeping().stuck_in_progress_recovered == 5
    assert [newest_of(workflow).state for workflow in fresh] == ["in_progress", "in_progress"]


def test_an_application_that_sends_nothing_goes_by_the_clock(app: Flask, extension: Geneva) -> None:
    old, fresh = create(Errand), create(Errand)
    begin_by_hand(old)
    begin_by_hand(fresh, started_at=ago(minutes=5))

    assert extension.run_housekeeping().stuck_in_progress_recovered == 1
    assert newest_of(old).state == "scheduled"


def job_of(workflow: Any, extension: Geneva) -> Job:
    """The job in Redis of the newest execution."""
    return Job.fetch(newest_of(workflow).job_id, connection=extension.redis)


def beat_as_rq_does(workflow: Any, extension: Geneva, *, seconds: int) -> None:
    """Let the job look started, with a heart that beats for so long."""
    job = job_of(workflow, extension)
    job.set_status(JobStatus.STARTED)
    with extension.redis.pipeline() as pipeline:
        Execution.create(job, seconds, pipeline)
        pipeline.execute()


def test_a_job_id_of_another_run_is_no_reason_to_recover(queueing_app: Flask, extension: Geneva) -> None:
    """The row is read again under the lock: it may have been begun anew since the queue was asked."""
    workflow = create(Errand)
    begin_by_hand(workflow, started_at=ago(seconds=1))
    beat_as_rq_does(workflow, extension, seconds=90)
    write_execution(workflow, started_at=ago(hours=5))

    assert extension.run_housekeeping().stuck_in_progress_recovered == 0
