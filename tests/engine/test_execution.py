"""One attempt: prepared under the lock, performed without one, finalised once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, select, update

from flask_geneva import StepExecution, Workflow
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.testing import perform_next_step
from tests.engine.flows import Boom, PlainFlow, PlannedFlow, boom, reload, run_job, start, states
from tests.harness.models import Order, db
from tests.signals.flows import parked

Plan = dict[str, Callable[..., Any]]
Ledger = Callable[[Any], list[str]]


def first_execution(workflow: Workflow[Any]) -> int:
    execution_id = workflow.step_executions[0].id
    db.session.rollback()
    return execution_id


def write(table: Any, row_id: int, **values: Any) -> None:
    db.session.execute(
        update(table).where(table.c.id == row_id).values({table.c[key]: value for key, value in values.items()})
    )
    db.session.commit()


def test_while_a_step_runs_its_rows_say_so_and_nothing_is_locked(app: Flask, plan: Plan) -> None:
    # EXE-01, EXE-05, ORD-16
    workflow = start()
    seen: list[Any] = []

    def look(running: Any) -> None:
        with db.engine.connect() as other:
            seen.extend(
                other.execute(select(workflows.c.state, workflows.c.current_step_name, workflows.c.next_step_name))
            )
            seen.extend(other.execute(select(step_executions.c.state, step_executions.c.started_at)))
            other.execute(update(workflows).values(updated_at=datetime.now(UTC)))
            other.commit()

    plan["one"] = look
    perform_next_step(workflow)

    assert seen[0] == ("performing", "one", "one")
    assert seen[1][0] == "in_progress"
    assert seen[1][1] is not None
    assert states(workflow)[0] == ("one", "completed", "success")


def test_the_next_step_is_scheduled_after_its_wait(app: Flask) -> None:
    # SCH-01, SCH-02, EXE-03
    workflow = start()

    perform_next_step(workflow)

    first, second = workflow.execution_history
    assert second.scheduled_for - first.finished_at == timedelta(hours=1)
    assert (first.completed_at, workflow.next_step_name, workflow.state) == (first.finished_at, "two", "ready")


def test_a_second_job_for_an_execution_does_nothing(app: Flask, ledger: Ledger) -> None:
    # EXE-06, SCH-15
    workflow = start()
    execution_id = first_execution(workflow)

    for _ in range(2):
        run_job(execution_id)

    assert ledger(workflow) == ["one"]
    assert states(reload(workflow)) == [("one", "completed", "success"), ("two", "scheduled", None)]


def test_a_job_for_a_parked_execution_does_nothing(app: Flask, ledger: Ledger) -> None:
    # EXE-07, SIG-41
    workflow = parked()
    before = states(workflow)

    run_job(workflow.execution_history[-1].id)

    assert (states(reload(workflow)), before[-1][1]) == (before, "waiting")


@pytest.mark.parametrize("state", ["in_progress", "failed", "canceled", "skipped"])
def test_a_job_for_an_execution_that_is_not_scheduled_does_nothing(app: Flask, ledger: Ledger, state: str) -> None:
    # EXE-07
    workflow = start()
    execution_id = first_execution(workflow)
    write(step_executions, execution_id, state=state)

    run_job(execution_id)

    assert ledger(workflow) == []
    assert states(reload(workflow))[0][1] == state


@pytest.mark.parametrize("state", ["paused", "finished", "canceled"])
def test_a_job_for_a_workflow_that_does_not_go_on_cancels_the_execution(app: Flask, ledger: Ledger, state: str) -> None:
    # EXE-09, EXE-10, OPS-24
    workflow = start()
    execution_id = first_execution(workflow)
    write(workflows, workflow.id, state=state)

    run_job(execution_id)

    assert ledger(workflow) == []
    assert states(reload(workflow)) == [("one", "canceled", "canceled")]
    assert reload(workflow).state == state


def test_a_job_for_a_row_that_is_gone_ends_quietly(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    # EXE-11
    run_job(987_654)

    assert "There is no step execution #987654 any more" in caplog.text


def test_two_workers_at_once_start_it_once(app: Flask, ledger: Ledger) -> None:
    # EXE-08
    workflow = start(PlainFlow)
    execution_id, gate = first_execution(workflow), threading.Barrier(4)

    def work() -> None:
        with app.app_context():
            gate.wait()
            run_job(execution_id)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ledger(workflow) == ["one"]


def test_an_early_job_sends_another_instead_of_running(app: Flask, ledger: Ledger) -> None:
    # SCH-14
    workflow = start()
    perform_next_step(workflow)
    early = workflow.execution_history[-1]
    execution_id, job_id = early.id, early.job_id
    db.session.rollback()

    run_job(execution_id)

    assert ledger(workflow) == ["one"]
    later = reload(workflow).execution_history[-1]
    assert (later.id, later.state) == (execution_id, "scheduled")
    assert later.job_id != job_id


def test_a_reported_error_is_there_after_all_is_committed(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # EXE-13, EXE-14, EXE-24, OBS-25
    workflow = start()
    plan["one"] = boom

    run = run_job(first_execution(workflow))

    assert isinstance(run.error_to_report, Boom)
    failed = reload(workflow).execution_history[0]
    assert (failed.state, failed.error_class_name, failed.error_message) == ("failed", "Boom", "bang")
    assert "in boom" in (failed.error_backtrace or "")
    assert failed.finished_at == failed.failed_at
    assert ledger(workflow) == []


def test_a_row_that_was_taken_away_fences_the_attempt(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # EXE-15, B-11
    workflow = start(PlainFlow)
    execution_id = first_execution(workflow)

    def recover(running: Any) -> None:
        with db.engine.begin() as other:
            other.execute(
                update(step_executions).where(step_executions.c.id == execution_id).values({"state": "completed"})
            )

    if db.engine.dialect.name == "sqlite":
        plan["one"] = lambda running: (db.session.rollback(), recover(running))
    else:
        plan["one"] = recover
    run_job(execution_id)

    assert ledger(workflow) == []
    assert len(reload(workflow).execution_history) == 1


def test_a_deleted_workflow_fences_the_attempt(app: Flask, plan: Plan) -> None:
    workflow = start(PlainFlow)
    execution_id, workflow_id = first_execution(workflow), workflow.id
    db.session.rollback()

    def remove(running: Any) -> None:
        db.session.rollback()
        with db.engine.begin() as other:
            other.execute(delete(step_executions))
            other.execute(delete(workflows))

    plan["one"] = remove
    run_job(execution_id)

    assert db.session.get(Workflow, workflow_id) is None


def test_a_write_that_the_database_refuses_at_the_commit_is_an_error_of_the_step(
    app: Flask, plan: Plan, ledger: Ledger
) -> None:
    workflow = start(PlainFlow)
    hero_id = int(workflow.hero_id or 0)
    plan["one"] = lambda running: db.session.add(Order(id=hero_id))

    run_job(first_execution(workflow))

    assert states(reload(workflow)) == [("one", "failed", "failed")]
    assert reload(workflow).execution_history[0].error_class_name == "IntegrityError"
    assert ledger(workflow) == []


def test_an_error_that_the_step_swallowed_in_the_session_is_an_error_of_the_step(
    app: Flask, plan: Plan, ledger: Ledger
) -> None:
    workflow = start(PlainFlow)
    hero_id = int(workflow.hero_id or 0)

    def swallow(running: Any) -> None:
        db.session.add(Order(id=hero_id))
        with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
            db.session.flush()

    plan["one"] = swallow
    run_job(first_execution(workflow))

    assert reload(workflow).state == "paused"
    assert ledger(workflow) == []


def test_nothing_in_memory_survives_between_steps(app: Flask, plan: Plan) -> None:
    # EXE-21, EXE-22
    workflow = start(PlainFlow)
    seen: list[Any] = []

    def leave(running: Any) -> str:
        running.scratch = "here"
        running.hero.state = "changed"
        return "ignored"

    plan["one"] = leave
    run_job(first_execution(workflow), runs_ahead=True)
    again = start(PlainFlow)
    plan["one"] = lambda running: seen.append(getattr(running, "scratch", None))
    run_job(first_execution(again))

    assert seen == [None]
    assert reload(workflow).hero.state == "changed"


def test_a_process_level_interrupt_leaves_the_row_to_recovery(app: Flask, plan: Plan) -> None:
    # EXE-23
    workflow = start(PlainFlow)

    def leave(running: Any) -> None:
        raise SystemExit

    plan["one"] = leave
    with pytest.raises(SystemExit):
        run_job(first_execution(workflow))

    assert states(reload(workflow)) == [("one", "in_progress", None)]


def test_checks_come_in_their_order(app: Flask, plan: Plan) -> None:
    # EXE-02
    workflow = start(PlannedFlow)
    execution_id = first_execution(workflow)
    write(step_executions, execution_id, step_name="unknown")
    plan["cancel_if"] = boom
    db.session.execute(delete(Order))
    db.session.commit()

    run_job(execution_id)

    assert reload(workflow).state == "canceled"


def test_a_row_canceled_by_hand_while_the_step_ran_is_not_overwritten(app: Flask, plan: Plan) -> None:
    # EXE-16
    workflow = start(PlainFlow)
    workflow_id = workflow.id
    execution_id = first_execution(workflow)

    def cancel_elsewhere(running: Any) -> None:
        db.session.rollback()
        with db.engine.begin() as other:
            other.execute(update(workflows).where(workflows.c.id == workflow_id).values({"state": "canceled"}))

    plan["one"] = cancel_elsewhere
    run_job(execution_id)

    assert reload(workflow).state == "canceled"
    assert len(db.session.scalars(select(StepExecution)).all()) == 1


def test_run_ahead_goes_straight_on_with_what_is_due_and_stops_at_a_wait(app: Flask, ledger: Ledger) -> None:
    workflow = start(PlannedFlow)

    run_job(first_execution(workflow), runs_ahead=True)
    assert ledger(workflow) == ["one"]
    plain = start(PlainFlow)
    run_job(first_execution(plain), runs_ahead=True)

    assert ledger(plain) == ["one", "two"]
    assert reload(plain).state == "finished"
    assert reload(plain).transitioned_at is not None
