"""A worker that is stopped past every timeout and goes on, as a laptop that slept, does no harm."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from flask_geneva import Geneva
from tests.harness.invariants import broken
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess
from tests.worker.conftest import Meetings, let_the_heartbeat_expire
from tests.worker.workflows import Counting, Meeting

pytestmark = pytest.mark.chaos

Start = Callable[..., WorkerProcess]
Ledger = Callable[[Any], list[str]]


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
    assert broken() == []
    assert ledger(workflow) == ["before", "meeting", "after"]


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
    assert broken() == []
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
