"""A worker that dies costs an attempt and a moment."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask_sqlalchemy import SQLAlchemy
from rq.command import send_stop_job_command

from flask_geneva import Geneva
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess
from tests.worker.conftest import Meetings, kill, let_the_heartbeat_expire
from tests.worker.workflows import Counting, DeadlyCondition, Exit, Long, Meeting, Poison, PoliteExit, Quick

Start = Callable[..., WorkerProcess]
Story = Callable[[Any], list[tuple[str, str, str | None]]]
Ledger = Callable[[Any], list[str]]


def causes(workflow: Any) -> list[str]:
    """What was noted about each attempt that died."""
    return [each.details["exception"]["message"] for each in workflow.execution_history if "exception" in each.details]


def test_a_step_whose_process_is_killed_runs_again_within_seconds(
    start: Start, create: Callable[..., Any], meetings: Meetings, ledger: Ledger, story: Story
) -> None:
    workflow = create(Meeting)
    worker = start()
    kill(meetings.wait_for("meeting"))

    killed = time.monotonic()
    meetings.wait_for("meeting", attempt=2)

    assert time.monotonic() - killed < 5
    meetings.let_go("meeting")
    eventually(lambda: len(ledger(workflow)) == 3, otherwise=lambda: worker.output)
    assert ledger(workflow) == ["before", "meeting", "after"]
    assert ("meeting", "completed", "recovered") in story(workflow)
    assert "worker process died, signal 9" in causes(workflow)[0]


def test_a_step_that_kills_its_worker_is_paused_after_three_deaths(
    start: Start, create: Callable[..., Any], state: Callable[[Any], str], ledger: Ledger, story: Story
) -> None:
    poison = create(Poison)
    worker = start()

    eventually(lambda: state(poison) == "paused", otherwise=lambda: worker.output)

    assert [outcome for _, _, outcome in story(poison)] == ["recovered", "recovered", "failed"]
    assert "signal 9" in poison.execution_history[-1].error_message
    assert ledger(poison) == []
    harmless = create(Quick)
    eventually(lambda: ledger(harmless) == ["first", "second"], otherwise=lambda: worker.output)


def test_the_exit_code_of_a_process_that_ended_is_noted(
    start: Start, create: Callable[..., Any], state: Callable[[Any], str]
) -> None:
    workflow = create(Exit)
    worker = start()

    eventually(lambda: state(workflow) == "paused", otherwise=lambda: worker.output)

    assert "worker process died, exit code 3" in causes(workflow)[0]


def test_a_condition_that_kills_its_worker_is_paused_after_three_deaths(
    start: Start, create: Callable[..., Any], state: Callable[[Any], str], story: Story
) -> None:
    workflow = create(DeadlyCondition)
    worker = start()

    eventually(lambda: state(workflow) == "paused", otherwise=lambda: worker.output)

    assert [outcome for _, _, outcome in story(workflow)] == ["recovered", "recovered", "failed"]


def test_a_step_whose_job_is_stopped_through_rq_is_paused(
    start: Start, create: Callable[..., Any], meetings: Meetings, state: Callable[[Any], str], extension: Geneva
) -> None:
    workflow = create(Meeting)
    worker = start()
    meetings.wait_for("meeting")

    send_stop_job_command(extension.redis, workflow.execution_history[1].job_id)

    eventually(lambda: state(workflow) == "paused", otherwise=lambda: worker.output)
    assert "stopped through RQ" in workflow.execution_history[-1].error_message


@pytest.mark.parametrize("fork", [(), ("--no-fork",)], ids=["fork", "no-fork"])
def test_a_step_that_ends_its_process_politely_is_recovered_by_it(
    fork: tuple[str, ...], start: Start, create: Callable[..., Any], state: Callable[[Any], str], ledger: Ledger
) -> None:
    workflow = create(PoliteExit)
    worker = start(*fork)

    eventually(lambda: state(workflow) == "paused", otherwise=lambda: worker.output)

    assert "SystemExit(4)" in causes(workflow)[0]
    assert ledger(workflow) == []


def test_a_resumable_step_whose_process_is_killed_goes_on_from_its_cursor(
    start: Start, create: Callable[..., Any], meetings: Meetings, ledger: Ledger
) -> None:
    workflow = create(Counting)
    worker = start()
    kill(meetings.wait_for("counting"))

    meetings.wait_for("counting", attempt=2)
    meetings.let_go("counting")

    eventually(lambda: len(ledger(workflow)) == 5, otherwise=lambda: worker.output)
    assert ledger(workflow) == [f"count {item}" for item in range(5)]


def test_a_step_survives_the_death_of_the_worker_above_it(
    start: Start, create: Callable[..., Any], meetings: Meetings, ledger: Ledger, story: Story
) -> None:
    workflow = create(Meeting)
    worker = start(GENEVA_RUN_AHEAD=0)
    meetings.wait_for("meeting")

    kill(worker.pid)
    meetings.let_go("meeting")

    eventually(lambda: ledger(workflow) == ["before", "meeting"], otherwise=lambda: worker.output)
    assert story(workflow)[1] == ("meeting", "completed", "success")


@pytest.mark.chaos
@pytest.mark.parametrize("fork", [(), ("--no-fork",)], ids=["fork", "no-fork"])
def test_a_whole_machine_that_dies_is_noticed_by_housekeeping_when_the_heart_has_stopped(
    fork: tuple[str, ...],
    start: Start,
    create: Callable[..., Any],
    meetings: Meetings,
    ledger: Ledger,
    extension: Geneva,
) -> None:
    workflow = create(Meeting)
    machine = start(*fork, GENEVA_HOUSEKEEPING_INTERVAL=None)
    in_hand = meetings.wait_for("meeting")
    kill(machine.pid)
    if in_hand != machine.pid:
        kill(in_hand)

    another = start(GENEVA_HOUSEKEEPING_INTERVAL=1)
    let_the_heartbeat_expire(extension, workflow.execution_history[1].job_id)

    meetings.wait_for("meeting", attempt=2)
    meetings.let_go("meeting")
    eventually(lambda: len(ledger(workflow)) == 3, otherwise=lambda: another.output)
    assert ledger(workflow) == ["before", "meeting", "after"]


@pytest.mark.chaos
@pytest.mark.parametrize("arguments", [(), ("--processes", "2")], ids=["one", "two"])
def test_a_storm_of_kills_costs_nothing_but_time(
    arguments: tuple[str, ...],
    start: Start,
    create: Callable[..., Any],
    state: Callable[[Any], str],
    ledger: Ledger,
    db: SQLAlchemy,
) -> None:
    workflows = [create(Long) for _ in range(6)]
    worker = start(*arguments, GENEVA_HOUSEKEEPING_INTERVAL=1, GENEVA_STUCK_SCHEDULED_THRESHOLD=1)
    chance = random.Random(7)

    for _ in range(40):
        time.sleep(chance.uniform(0.02, 0.15))
        for process_id in work_horses_of(worker):
            with contextlib.suppress(ProcessLookupError):
                kill(process_id)

    eventually(lambda: all(ended(each, state, db) for each in workflows), within=60, otherwise=lambda: worker.output)
    outcomes = [each.outcome for workflow in workflows for each in workflow.execution_history]
    assert outcomes.count("recovered") > 5
    for workflow in workflows:
        assert ledger(workflow) == [*(f"marks_{number}" for number in range(1, 10)), *(f"count {n}" for n in range(9))]


def ended(workflow: Any, state: Callable[[Any], str], db: SQLAlchemy) -> bool:
    """Whether it is finished; where it was killed too often in one step it is resumed."""
    if state(workflow) == "paused":
        workflow.resume()
        db.session.commit()
    return state(workflow) == "finished"


def work_horses_of(worker: WorkerProcess) -> list[int]:
    """The processes in which steps run: they lead a group of their own."""
    return [
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and is_horse_of(worker, int(folder.name))
    ]


def is_horse_of(worker: WorkerProcess, process_id: int) -> bool:
    try:
        return os.getsid(process_id) == worker.pid and os.getpgid(process_id) == process_id != worker.pid
    except ProcessLookupError:
        return False
