"""How a worker finds its application and its queues, and what it does beside steps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import text

from flask_geneva import Geneva
from flask_geneva.worker.running import queues_of
from tests.harness.apps import DATABASE_VARIABLE, MODULES_VARIABLE, REDIS_VARIABLE
from tests.harness.waiting import eventually
from tests.harness.workers import ROOT, WorkerProcess
from tests.worker.workflows import Backend, Counting, Elsewhere, Meeting, Quick, Shortly

Start = Callable[..., WorkerProcess]
Ledger = Callable[[Any], list[str]]
Story = Callable[[Any], list[tuple[str, str, str | None]]]


@pytest.fixture
def rq_worker(database_url: str, redis_url: str, queueing_app: Flask) -> Callable[..., str]:
    """Runs ``rq worker`` in a burst, and returns what it wrote."""

    def run(*arguments: str, **environment: str) -> str:
        known = {
            DATABASE_VARIABLE: database_url,
            REDIS_VARIABLE: redis_url,
            MODULES_VARIABLE: "tests.worker.workflows",
            "PYTHONPATH": str(ROOT),
        }
        without_app = {name: value for name, value in os.environ.items() if name != "FLASK_APP"}
        command = [Path(sys.executable).with_name("rq"), "worker", "--url", redis_url, "--burst", *arguments, "geneva"]
        worker = subprocess.Popen(
            command,
            env={**without_app, **known, **environment},
            cwd=ROOT / "docs",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return _all_but_the_end(worker)

    return run


def _all_but_the_end(worker: subprocess.Popen[str]) -> str:
    """With redis-py 8.2 RQ's own worker takes up to a minute from its last words to its end."""
    assert worker.stdout is not None
    lines = []
    with worker:
        for line in worker.stdout:
            lines.append(line)
            if "unsubscribing from channel" in line:
                worker.kill()
    return "".join(lines)


def test_rq_runs_our_worker(rq_worker: Callable[..., str], create: Callable[..., Any], ledger: Ledger) -> None:
    workflow = create(Quick)

    output = rq_worker("-w", "flask_geneva.GenevaWorker", FLASK_APP="tests.harness.apps")

    assert ledger(workflow) == ["first", "second"], output


def test_rqs_own_worker_finds_the_application_by_its_variable(
    rq_worker: Callable[..., str], create: Callable[..., Any], ledger: Ledger
) -> None:
    workflow = create(Quick)

    output = rq_worker(FLASK_APP="tests.harness.apps")

    assert ledger(workflow) == ["first", "second"], output


def test_rqs_own_worker_without_an_application_says_what_to_do_and_leaves_the_row(
    rq_worker: Callable[..., str], create: Callable[..., Any], story: Story
) -> None:
    workflow = create(Quick)

    output = rq_worker()

    assert "Start it with 'flask geneva worker'" in output
    assert story(workflow) == [("first", "scheduled", None)]


def test_our_worker_without_an_application_says_what_to_do(rq_worker: Callable[..., str]) -> None:
    assert "Start it with 'flask geneva worker'" in rq_worker("-w", "flask_geneva.GenevaWorker")


def test_a_worker_looks_at_every_queue_that_a_step_names(queueing_app: Flask, extension: Geneva) -> None:
    runtime = queueing_app.extensions["geneva"].runtime

    names = queues_of(runtime)

    assert names[0] == "geneva"
    assert {"elsewhere", "far away"} <= set(names[1:])
    assert names[1:] == sorted(names[1:])


@pytest.mark.parametrize("arguments", [(), ("--no-fork",), ("--processes", "2")], ids=["fork", "no-fork", "processes"])
def test_a_burst_ends_when_the_queues_are_empty(
    arguments: tuple[str, ...], start: Start, create: Callable[..., Any], ledger: Ledger
) -> None:
    workflows = [create(Quick), create(Elsewhere)]

    worker = start("--burst", *arguments)

    assert worker.wait() == 0
    assert [ledger(workflow) for workflow in workflows] == [["first", "second"], ["here", "there"]]


def test_a_worker_can_be_bound_to_one_queue(start: Start, create: Callable[..., Any], ledger: Ledger) -> None:
    here, elsewhere = create(Quick), create(Elsewhere)

    assert start("--burst", "elsewhere").wait() == 0

    assert ledger(elsewhere) == ["here"]
    assert ledger(here) == []


def test_delayed_steps_are_run_when_they_are_due(
    start: Start, create: Callable[..., Any], ledger: Ledger, db: Any
) -> None:
    workflow = create(Shortly)
    worker = start()

    eventually(lambda: ledger(workflow) == ["only"], otherwise=lambda: worker.output)

    db.session.rollback()
    execution = workflow.execution_history[0]
    assert execution.started_at >= execution.scheduled_for


def test_several_processes_work_at_once(
    start: Start, create: Callable[..., Any], meetings: Any, ledger: Ledger
) -> None:
    workflows = [create(Counting), create(Counting)]
    worker = start("--processes", "2")

    meetings.wait_for("counting", attempt=2)
    assert len(set(meetings.arrivals("counting"))) == 2
    meetings.let_go("counting")

    eventually(lambda: all(len(ledger(each)) == 5 for each in workflows), otherwise=lambda: worker.output)


@pytest.mark.databases("postgresql")
def test_a_child_keeps_its_connection_for_the_next_job_and_the_parent_has_none(
    start: Start, create: Callable[..., Any], ledger: Ledger, db: SQLAlchemy
) -> None:
    workflow = create(Backend)
    worker = start(GENEVA_HOUSEKEEPING_INTERVAL=None)

    eventually(lambda: len(ledger(workflow)) == 2, otherwise=lambda: worker.output)

    served_by = {int(mark) for mark in ledger(workflow)}
    db.session.rollback()
    db.engine.dispose()
    eventually(lambda: set(backends(db)) == served_by, otherwise=lambda: worker.output)


@pytest.mark.databases("postgresql")
def test_a_connection_that_died_between_two_jobs_costs_nothing(
    start: Start, create: Callable[..., Any], ledger: Ledger, story: Story, db: SQLAlchemy
) -> None:
    first = create(Quick)
    worker = start("--no-fork", GENEVA_HOUSEKEEPING_INTERVAL=None)
    eventually(lambda: len(ledger(first)) == 2, otherwise=lambda: worker.output)

    kill_other_backends(db)
    second = create(Quick)

    eventually(lambda: len(ledger(second)) == 2, otherwise=lambda: worker.output)
    assert [outcome for _, _, outcome in story(second)] == ["success", "success"]


@pytest.mark.databases("postgresql")
def test_a_connection_that_died_in_a_step_costs_one_attempt(
    start: Start, create: Callable[..., Any], meetings: Any, ledger: Ledger, story: Story, db: SQLAlchemy
) -> None:
    workflow = create(Meeting)
    worker = start("--no-fork", GENEVA_HOUSEKEEPING_INTERVAL=None)
    meetings.wait_for("meeting")

    kill_other_backends(db)
    meetings.let_go("meeting")

    eventually(lambda: len(ledger(workflow)) == 3, otherwise=lambda: worker.output)
    assert [outcome for _, _, outcome in story(workflow)] == ["success", "reattempted", "success", "success"]
    assert workflow.execution_history[1].details["reattempt_reason"] == "transient_db_error"


def backends(db: SQLAlchemy) -> list[int]:
    """The processes of the server that serve this database for anybody but us."""
    db.session.rollback()
    where = "datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    return list(db.session.scalars(text(f"SELECT pid FROM pg_stat_activity WHERE {where}")))


def kill_other_backends(db: SQLAlchemy) -> None:
    """End every connection to this database but our own."""
    db.session.rollback()
    db.engine.dispose()
    for process_id in backends(db):
        db.session.execute(text(f"SELECT pg_terminate_backend({process_id})"))
    db.session.rollback()
