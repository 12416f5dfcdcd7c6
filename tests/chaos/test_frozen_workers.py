"""A worker that is stopped past every timeout and goes on, as a laptop that slept, does no harm."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from flask_geneva import Geneva, Workflow
from tests.harness.invariants import broken
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess
from tests.worker.conftest import Meetings, let_the_heartbeat_expire
from tests.worker.workflows import Counting, Meeting

pytestmark = pytest.mark.chaos

Start = Callable[..., WorkerProcess]
Ledger = Callable[[Any], list[str]]
LetHang = Callable[..., list[str]]


# A step that hung in the middle of a transaction of SQLite's would keep everybody from writing.
@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_a_step_that_hung_past_every_timeout_cannot_commit(let_hang: LetHang) -> None:
    assert let_hang(Meeting, "meeting", entries=3) == ["before", "meeting", "after"]


def test_a_resumable_step_that_hung_past_every_timeout_makes_no_checkpoint(let_hang: LetHang) -> None:
    assert let_hang(Counting, "counting", entries=5) == [f"count {item}" for item in range(5)]


@pytest.fixture
def let_hang(
    start: Start,
    create: Callable[..., Any],
    meetings: Meetings,
    frozen: list[int],
    ledger: Ledger,
    extension: Geneva,
) -> LetHang:
    """Freeze a worker at a meeting until another one has done its work, let it go on, and return the ledger."""

    def let_hang(kind: type[Workflow[Any]], place: str, *, entries: int) -> list[str]:
        workflow = create(kind)
        zombie = start(GENEVA_HOUSEKEEPING_INTERVAL=None)
        freeze(zombie, meetings.wait_for(place), frozen)
        let_the_heartbeat_expire(extension, workflow.execution_history[-1].job_id)
        another = start(GENEVA_HOUSEKEEPING_INTERVAL=1)
        meetings.wait_for(place, attempt=2)
        meetings.let_go(place)
        eventually(lambda: len(ledger(workflow)) == entries, otherwise=lambda: another.output)

        thaw(frozen)

        eventually(lambda: "Fenced" in zombie.output, otherwise=lambda: zombie.output)
        assert broken() == []
        return ledger(workflow)

    return let_hang


def freeze(worker: WorkerProcess, step_process_id: int, frozen: list[int]) -> None:
    """Stop a worker with the process that it forked for the step."""
    frozen += [step_process_id, worker.pid]
    for process_id in frozen:
        os.kill(process_id, signal.SIGSTOP)


def thaw(frozen: list[int]) -> None:
    """Let them go on."""
    for process_id in frozen:
        os.kill(process_id, signal.SIGCONT)
