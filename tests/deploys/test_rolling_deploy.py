"""Rows were written by one day's code and are met by another's, each in worker processes of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from flask_geneva import StepExecution, Workflow
from tests.deploys.yesterday import DeployedFlow
from tests.harness.models import Order, db
from tests.harness.workers import Workers

YESTERDAY, BURIED, DELETED, RENAMED, RENAMED_ANEW = (
    f"tests.deploys.{day}" for day in ("yesterday", "buried", "deleted", "renamed", "renamed_anew")
)


@pytest.fixture
def workflow(queueing_app: Flask, workers: Workers) -> Workflow[Any]:
    """A workflow that yesterday's worker has brought as far as weighing, whose job lies in another queue."""
    order = Order()
    db.session.add(order)
    workflow = DeployedFlow.create(hero=order)
    db.session.commit()
    run_worker(workers, YESTERDAY, "geneva")
    db.session.refresh(workflow)
    assert workflow.next_step_name == "weigh"
    db.session.commit()
    return workflow


def run_worker(workers: Workers, day: str, *queues: str) -> None:
    """Let a worker with one day's code run until the queues are empty."""
    worker = workers.start(*queues, "--burst", "--no-fork", modules=[day] if day else [])
    assert worker.wait() == 0, worker.output


def command(workers: Workers, day: str, *arguments: str) -> str:
    """Run a ``flask geneva`` command with one day's code."""
    process = workers.run("geneva", *arguments, modules=[day])
    assert process.wait() == 0, process.output
    return process.output


def state_of(workflow: Workflow[Any]) -> str:
    """The state that others have committed, not that of a snapshot."""
    db.session.rollback()
    db.session.refresh(workflow)
    return workflow.state


def errors_of(workflow: Workflow[Any]) -> list[str | None]:
    found = select(StepExecution.error_class_name).where(StepExecution.workflow_id == workflow.id)
    return [name for name in db.session.scalars(found) if name]


Ledger = Callable[[Any], list[str]]


def test_a_buried_step_is_passed_over(workflow: Workflow[Any], workers: Workers, ledger: Ledger) -> None:
    # REM-07
    run_worker(workers, BURIED, "later")

    assert state_of(workflow) == "finished"
    assert ledger(workflow) == ["pack", "dispatch"]


def test_a_deleted_step_pauses_its_workflow_alone_and_a_person_sends_it_on(
    workflow: Workflow[Any], workers: Workers, ledger: Ledger
) -> None:
    # MIS-01, REM-10, OPS-45
    run_worker(workers, DELETED, "later")
    assert (state_of(workflow), errors_of(workflow)) == ("paused", ["StepNotDefinedError"])

    command(workers, DELETED, "resume-at", str(workflow.id), "dispatch")
    run_worker(workers, DELETED, "later")

    assert state_of(workflow) == "finished"
    assert ledger(workflow) == ["pack", "dispatch"]


def test_old_code_that_meets_a_step_of_the_future_pauses_it_and_the_new_code_resumes_it(
    queueing_app: Flask, workers: Workers, ledger: Ledger
) -> None:
    order = Order()
    db.session.add(order)
    workflow = DeployedFlow.create(hero=order)
    db.session.commit()
    run_worker(workers, YESTERDAY, "geneva")

    # "deleted" plays the older code here: it does not know the step that "yesterday" has added.
    run_worker(workers, DELETED, "later")
    assert state_of(workflow) == "paused"
    command(workers, YESTERDAY, "resume", str(workflow.id))
    run_worker(workers, YESTERDAY, "later")

    assert state_of(workflow) == "finished"
    assert ledger(workflow) == ["pack", "weigh", "dispatch"]


def test_a_class_that_is_gone_pauses_its_workflow_until_it_is_back(
    workflow: Workflow[Any], workers: Workers, ledger: Ledger
) -> None:
    # MIS-06
    run_worker(workers, "", "later")
    assert (state_of(workflow), errors_of(workflow)) == ("paused", ["WorkflowNotDefinedError"])

    command(workers, YESTERDAY, "resume", str(workflow.id))
    run_worker(workers, YESTERDAY, "later")

    assert state_of(workflow) == "finished"
    assert ledger(workflow) == ["pack", "weigh", "dispatch"]


@pytest.mark.parametrize("today", [RENAMED, RENAMED_ANEW])
def test_a_renamed_class_adopts_the_rows_of_its_old_name(
    workflow: Workflow[Any], workers: Workers, ledger: Ledger, today: str
) -> None:
    run_worker(workers, today, "later")

    assert state_of(workflow) == "finished"
    assert ledger(workflow) == ["pack", "weigh, renamed", "dispatch"]
