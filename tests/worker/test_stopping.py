"""A worker that is told to end does so in its own time, and leaves nothing half done."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from rq import Worker
from rq.scheduler import RQScheduler

from flask_geneva import Geneva
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess
from tests.worker.conftest import Meetings, let_the_heartbeat_expire
from tests.worker.workflows import Counting, Meeting, Quick

Start = Callable[..., WorkerProcess]
Story = Callable[[Any], list[tuple[str, str, str | None]]]
Ledger = Callable[[Any], list[str]]

both_kinds = pytest.mark.parametrize("fork", [(), ("--no-fork",)], ids=["fork", "no-fork"])


@both_kinds
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_ordinary_step_ends_before_its_worker_does(
    fork: tuple[str, ...],
    number: signal.Signals,
    start: Start,
    create: Callable[..., Any],
    meetings: Meetings,
    ledger: Ledger,
    story: Story,
) -> None:
    workflow = create(Meeting)
    worker = start(*fork)
    meetings.wait_for("meeting")

    worker.send(number)
    eventually(lambda: "warm shut down" in worker.output)
    meetings.let_go("meeting")

    assert worker.wait() == 0
    assert ledger(workflow) == ["before", "meeting"]
    assert story(workflow)[1:] == [("meeting", "completed", "success"), ("after", "scheduled", None)]


@both_kinds
def test_a_resumable_step_stops_at_its_next_checkpoint(
    fork: tuple[str, ...], start: Start, create: Callable[..., Any], meetings: Meetings, ledger: Ledger, story: Story
) -> None:
    workflow = create(Counting)
    worker = start(*fork)
    meetings.wait_for("counting")

    worker.send(signal.SIGTERM)
    eventually(lambda: "warm shut down" in worker.output)
    meetings.let_go("counting")

    assert worker.wait() == 0
    assert ledger(workflow) == ["count 0", "count 1", "count 2"]
    assert story(workflow) == [("count", "completed", "continued"), ("count", "scheduled", None)]


@pytest.mark.parametrize("arguments", [(), ("--no-fork",), ("--processes", "2")], ids=["fork", "no-fork", "processes"])
def test_another_worker_goes_on_from_the_checkpoint_at_which_a_resumable_step_was_stopped(
    arguments: tuple[str, ...],
    start: Start,
    create: Callable[..., Any],
    meetings: Meetings,
    ledger: Ledger,
    story: Story,
    record_property: Callable[[str, object], None],
) -> None:
    workflow = create(Counting)
    worker = start(*arguments)
    meetings.wait_for("counting")
    worker.send(signal.SIGTERM)
    eventually(lambda: "warm shut down" in worker.output.lower())

    meetings.let_go("counting")
    let_go = time.monotonic()
    assert worker.wait() == 0
    record_property(f"worker {' '.join(arguments)}", f"ended {time.monotonic() - let_go:.2f} s after the checkpoint")
    assert ledger(workflow) == ["count 0", "count 1", "count 2"]

    another = start(*arguments)
    eventually(lambda: len(ledger(workflow)) == 5, otherwise=lambda: another.output)

    assert ledger(workflow) == [f"count {item}" for item in range(5)]
    eventually(lambda: story(workflow) == [("count", "completed", "continued"), ("count", "completed", "success")])


def test_a_step_whose_process_is_told_to_end_itself_ends_first(
    start: Start, create: Callable[..., Any], meetings: Meetings, ledger: Ledger
) -> None:
    """As systemd does, which tells every process of a service at once."""
    workflow = create(Meeting)
    worker = start()
    process_id = meetings.wait_for("meeting")

    os.kill(process_id, signal.SIGTERM)
    worker.send(signal.SIGTERM)
    meetings.let_go("meeting")

    assert worker.wait() == 0
    assert ledger(workflow) == ["before", "meeting"]


@both_kinds
def test_a_second_signal_ends_cold_and_has_the_step_run_again(
    fork: tuple[str, ...], start: Start, create: Callable[..., Any], meetings: Meetings, ledger: Ledger, story: Story
) -> None:
    workflow = create(Meeting)
    worker = start(*fork)
    meetings.wait_for("meeting")

    worker.send(signal.SIGTERM)
    at = time.monotonic()
    eventually(lambda: time.monotonic() - at > 1.1)
    worker.send(signal.SIGTERM)
    worker.wait()

    assert story(workflow)[1:] == [("meeting", "completed", "recovered"), ("meeting", "scheduled", None)]
    assert workflow.execution_history[-1].death_reattempts == 0
    assert ledger(workflow) == ["before"]


def test_an_idle_worker_ends_at_once_and_gives_up_its_locks(
    start: Start, create: Callable[..., Any], ledger: Ledger, extension: Geneva
) -> None:
    workflow = create(Quick)
    worker = start()
    eventually(lambda: len(ledger(workflow)) == 2, otherwise=lambda: worker.output)
    lock = RQScheduler.get_locking_key("geneva")
    eventually(lambda: extension.redis.exists(lock))

    worker.send(signal.SIGTERM)

    assert worker.wait(within=5) == 0
    assert not extension.redis.exists(lock)
    assert Worker.all(connection=extension.redis) == []


@pytest.mark.parametrize("arguments", [(), ("--no-fork",), ("--processes", "2")], ids=["fork", "no-fork", "processes"])
def test_no_process_stays_behind(
    arguments: tuple[str, ...], start: Start, create: Callable[..., Any], ledger: Ledger
) -> None:
    workflow = create(Quick)
    worker = start(*arguments)
    eventually(lambda: len(ledger(workflow)) == 2, otherwise=lambda: worker.output)

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    eventually(lambda: group_is_empty(worker), within=5)


def test_what_a_killed_worker_started_ends_by_itself(start: Start, create: Callable[..., Any], ledger: Ledger) -> None:
    workflow = create(Quick)
    worker = start()
    eventually(lambda: len(ledger(workflow)) == 2, otherwise=lambda: worker.output)

    worker.send(signal.SIGKILL)
    worker.wait()

    eventually(lambda: group_is_empty(worker), within=5)


def group_is_empty(worker: WorkerProcess) -> bool:
    """Whether no process is left in the group that the worker was the head of."""
    try:
        os.killpg(worker.pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.chaos
@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_a_step_that_hung_past_every_timeout_cannot_commit(
    start: Start,
    create: Callable[..., Any],
    meetings: Meetings,
    frozen: list[int],
    ledger: Ledger,
    extension: Geneva,
) -> None:
    workflow = create(Meeting)
    zombie = start(GENEVA_HOUSEKEEPING_INTERVAL=None)
    freeze(zombie, meetings.wait_for("meeting"), frozen)
    let_the_heartbeat_expire(extension, workflow.execution_history[1].job_id)

    another = start(GENEVA_HOUSEKEEPING_INTERVAL=1)
    meetings.wait_for("meeting", attempt=2)
    meetings.let_go("meeting")
    eventually(lambda: len(ledger(workflow)) == 3, otherwise=lambda: another.output)
    thaw(frozen)

    eventually(lambda: "Fenced" in zombie.output, otherwise=lambda: zombie.output)
    assert ledger(workflow) == ["before", "meeting", "after"]


@pytest.mark.chaos
def test_a_resumable_step_that_hung_past_every_timeout_makes_no_checkpoint(
    start: Start,
    create: Callable[..., Any],
    meetings: Meetings,
    frozen: list[int],
    ledger: Ledger,
    extension: Geneva,
) -> None:
    workflow = create(Counting)
    zombie = start(GENEVA_HOUSEKEEPING_INTERVAL=None)
    freeze(zombie, meetings.wait_for("counting"), frozen)
    let_the_heartbeat_expire(extension, workflow.execution_history[0].job_id)

    another = start(GENEVA_HOUSEKEEPING_INTERVAL=1)
    meetings.wait_for("counting", attempt=2)
    meetings.let_go("counting")
    eventually(lambda: len(ledger(workflow)) == 5, otherwise=lambda: another.output)
    thaw(frozen)

    eventually(lambda: "Fenced" in zombie.output, otherwise=lambda: zombie.output)
    assert ledger(workflow) == [f"count {item}" for item in range(5)]


def freeze(worker: WorkerProcess, step_process_id: int, frozen: list[int]) -> None:
    """Stop a worker with the process that it forked for the step."""
    frozen += [step_process_id, worker.pid]
    for process_id in frozen:
        os.kill(process_id, signal.SIGSTOP)


def thaw(frozen: list[int]) -> None:
    """Let them go on."""
    for process_id in frozen:
        os.kill(process_id, signal.SIGCONT)
