"""A step that is interrupted again and again without getting any further is no step for ever."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from flask_geneva import IterableStep
from flask_geneva.records.tables import step_executions
from tests.engine.elsewhere import Ledger, Plan, press
from tests.harness.models import db, write_down
from tests.iteration.flows import MinuteFlow, ThriceFlow, begun, run_one


def after_interruptions(workflow: Any, number: int) -> None:
    """As if the chain had come to nothing so often already."""
    execution = workflow.current_execution
    db.session.execute(update(step_executions).where(step_executions.c.id == execution.id).values(stalled_runs=number))
    db.session.commit()


def suspend(running: Any, it: IterableStep) -> None:
    running.suspend()


def test_after_a_hundred_interruptions_without_progress_the_step_fails(app: Flask, plan: Plan) -> None:
    workflow = run_one(begun(plan, suspend))
    assert workflow.execution_history[-1].stalled_runs == 1
    after_interruptions(workflow, 98)

    run_one(workflow)
    assert (workflow.state, workflow.execution_history[-1].stalled_runs) == ("ready", 99)
    run_one(workflow)

    failed = workflow.execution_history[-1]
    assert (failed.state, failed.outcome, failed.error_class_name) == ("failed", "failed", "NoProgress")
    assert (workflow.state, workflow.next_step_name) == ("paused", "one")
    assert "interrupted 100 times in a row" in str(failed.error_message)


@pytest.mark.parametrize(
    "stay",
    [
        lambda running, it: it.suspend(),
        lambda running, it: it.skip_to(it.cursor),
        lambda running, it: [it.checkpoint() for _ in range(3)],
    ],
    ids=["suspend", "skip_to", "checkpoint"],
)
def test_a_cursor_that_stays_is_no_progress(app: Flask, plan: Plan, stay: Any) -> None:
    def body(running: Any, it: IterableStep) -> None:
        if not it.resumed:
            it.skip_to(7)
        stay(running, it)

    workflow = run_one(begun(plan, body, ThriceFlow))
    assert workflow.execution_history[-1].stalled_runs == 0

    run_one(workflow)

    assert [(each.cursor_value, each.stalled_runs) for each in workflow.execution_history[1:]] == [(7, 0), (7, 1)]


def test_progress_begins_the_count_anew(app: Flask, plan: Plan) -> None:
    def body(running: Any, it: IterableStep) -> None:
        it.skip_to((it.cursor or 0) + 1)

    workflow = begun(plan, body)
    after_interruptions(workflow, 99)

    run_one(workflow)

    assert (workflow.state, workflow.execution_history[-1].stalled_runs) == ("ready", 0)


def test_a_resume_begins_the_count_anew(app: Flask, plan: Plan, ledger: Ledger) -> None:
    workflow = begun(plan, suspend, MinuteFlow)
    after_interruptions(workflow, 99)
    run_one(workflow)
    assert workflow.state == "paused"

    plan["body"] = lambda running, it: write_down(running)
    press(workflow.id, "resume")
    run_one(workflow)

    assert (workflow.state, ledger(workflow)) == ("finished", ["one"])
    assert workflow.execution_history[-1].stalled_runs == 0


def test_an_operator_who_pauses_is_no_interruption_without_progress(app: Flask, plan: Plan) -> None:
    def body(running: Any, it: IterableStep) -> None:
        press(running.id, "pause")
        it.checkpoint()

    workflow = begun(plan, body)
    after_interruptions(workflow, 99)

    run_one(workflow)

    paused = workflow.execution_history[-1]
    assert (workflow.state, paused.outcome, paused.error_class_name) == ("paused", "workflow_paused", None)
