"""A worker that dies costs an attempt and a moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from rq.command import send_stop_job_command

from flask_geneva import Geneva
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess
from tests.worker.conftest import Meetings, kill
from tests.worker.workflows import Counting, DeadlyCondition, Exit, Meeting, Poison, PoliteExit, Quick

Start = Callable[..., WorkerProcess]
Story = Callable[[Any], list[tuple[str, str, str | None]]]
Ledger = Callable[[Any], list[str]]


def elapsed(since: float) -> str:
    return f"{time.monotonic() - since:.2f}"


def causes(workflow: Any) -> list[str]:
    """What was noted about each attempt that died."""
    return [each.details["exception"]["message"] for each in workflow.execution_history if "exception" in each.details]


def test_a_step_whose_process_is_killed_runs_again_at_once(
    start: Start,
    create: Callable[..., Any],
    meetings: Meetings,
    ledger: Ledger,
    story: Story,
    record_property: Callable[[str, object], None],
    database_kind: str,
) -> None:
    workflow = create(Meeting)
    worker = start()
    kill(meetings.wait_for("meeting"))

    killed = time.monotonic()
    meetings.wait_for("meeting", attempt=2)

    record_property(f"{database_kind}: SIGKILL of a work-horse to its step running again", f"{elapsed(killed)} s")
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
    assert [f"{number} deaths of this step in a row" in text for number, text in enumerate(causes(poison), 1)][1:] == [
        True,
        True,
    ]
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
