"""The run as a whole: what it tells, and that nothing stops it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from flask_geneva import Geneva, events
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.housekeeping.run import Summary, run_housekeeping
from tests.harness.models import Order
from tests.harness.redis_servers import TestRedis
from tests.housekeeping.workflows import (
    Errand,
    Parked,
    ago,
    begin_by_hand,
    create,
    newest_of,
    write_execution,
    write_workflow,
)

CLEAN = Summary().as_dict()


def a_mess() -> None:
    """Two of everything that can be wrong, among what is right."""
    for _ in range(2):
        write_execution(create(Errand), scheduled_for=ago(hours=2))
        begin_by_hand(create(Errand), job_id="nobody")
        write_workflow(create(Parked), state="finished", transitioned_at=ago(minutes=1))
        without_a_step = create(Errand)
        write_execution(without_a_step, state="completed")
        old = create(Errand)
        write_execution(old, state="completed")
        write_workflow(old, state="canceled", transitioned_at=ago(days=31))
        create(Errand)


def test_one_run_does_all_and_says_how_much(queueing_app: Flask, extension: Geneva, redis_server: TestRedis) -> None:
    """HSK-23, HSK-24"""
    a_mess()
    redis_server.flush()

    summary = extension.run_housekeeping()

    assert summary.as_dict() == {
        **CLEAN,
        "stuck_scheduled_recovered": 2,
        "stuck_in_progress_recovered": 2,
        "workflows_rescheduled": 2,
        "strays_closed": 2,
        "step_executions_cleaned_up": 2,
        "workflows_cleaned_up": 2,
    }


def test_a_second_run_finds_nothing_to_do(queueing_app: Flask, extension: Geneva, redis_server: TestRedis) -> None:
    a_mess()
    redis_server.flush()
    extension.run_housekeeping()

    # The rows that were sent again are still overdue, but they have their jobs.
    assert extension.run_housekeeping().as_dict() == CLEAN


def test_two_runs_at_once_share_the_work(queueing_app: Flask, extension: Geneva, redis_server: TestRedis) -> None:
    a_mess()
    redis_server.flush()
    summaries: list[Summary] = []

    def run() -> None:
        with queueing_app.app_context():
            summaries.append(extension.run_housekeeping())

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    done = {name: sum(summary.as_dict()[name] for summary in summaries) for name in CLEAN}
    assert done["failures"] == 0
    assert done["stuck_in_progress_recovered"] == done["workflows_rescheduled"] == done["workflows_cleaned_up"] == 2


def test_one_bad_row_does_not_stop_the_rest(
    queueing_app: Flask, extension: Geneva, redis_server: TestRedis, caplog: pytest.LogCaptureFixture
) -> None:
    """HSK-25 (B-15)"""
    bad, good = create(Errand), create(Errand)
    for workflow in (bad, good):
        write_execution(workflow, scheduled_for=ago(hours=2))
    write_workflow(bad, details={"job_options": ["not", "a", "mapping"]})
    redis_server.flush()

    summary = extension.run_housekeeping()

    assert (summary.stuck_scheduled_recovered, summary.failures) == (1, 1)
    assert extension.queue().job_ids == [newest_of(good).job_id]
    assert f"could not mend step execution #{newest_of(bad).id}" in caplog.text


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_a_row_that_somebody_holds_is_passed_over(
    queueing_app: Flask, extension: Geneva, db: SQLAlchemy, redis_server: TestRedis
) -> None:
    held, free = create(Errand), create(Errand)
    for workflow in (held, free):
        write_execution(workflow, scheduled_for=ago(hours=2))
    redis_server.flush()

    with db.engine.connect() as connection, connection.begin():
        connection.exec_driver_sql(f"SELECT id FROM geneva_workflows WHERE id = {held.id} FOR UPDATE")
        summary = extension.run_housekeeping()

    assert (summary.stuck_scheduled_recovered, summary.failures) == (1, 0)
    assert extension.queue().job_ids == [newest_of(free).job_id]


def test_subscribers_hear_of_it(app: Flask, extension: Geneva) -> None:
    heard: list[Any] = []

    with events.housekeeping_finished.connected_to(lambda sender, summary: heard.append((sender, summary)), sender=app):
        summary = extension.run_housekeeping()

    assert heard == [(app, summary)]


def test_what_the_session_holds_is_committed(app: Flask, extension: Geneva, db: SQLAlchemy) -> None:
    db.session.add(Order(state="new"))

    extension.run_housekeeping()
    db.session.rollback()

    assert db.session.scalars(db.select(Order)).one().state == "new"


def test_progress_is_told_and_can_end_the_run(queueing_app: Flask, extension: Geneva, redis_server: TestRedis) -> None:
    class Enough(Exception):
        pass

    for _ in range(3):
        write_execution(create(Errand), scheduled_for=ago(hours=2))
    redis_server.flush()

    def progress(section: str, done: int) -> None:
        if done == 1:
            raise Enough(section)

    with pytest.raises(Enough, match="lost_jobs"):
        run_housekeeping(current_runtime(), progress)

    assert extension.queue().count == 1


def test_what_is_lost_is_mended_before_anything_is_deleted(app: Flask, extension: Geneva) -> None:
    """HSK-28, in our order"""
    sections: list[str] = []

    run_housekeeping(current_runtime(), lambda section, done: sections.append(section))

    assert list(dict.fromkeys(sections)) == ["lost_jobs", "dead_executions", "broken_workflows", "retention"]


def test_sections_that_need_redis_do_not_stop_the_others(build_app: Callable[..., Flask], extension: Geneva) -> None:
    with build_app("redis://127.0.0.1:1/0").app_context():
        old = create(Errand)
        write_execution(old, state="completed")
        write_workflow(old, state="finished", transitioned_at=ago(days=31))

        summary = extension.run_housekeeping()

        assert summary.workflows_cleaned_up == 1
        assert summary.failures > 0
