"""Work-horses, workers and whole machines that die cost time, and nothing else."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from flask_sqlalchemy import SQLAlchemy

from flask_geneva import Geneva
from tests.harness.invariants import broken
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess
from tests.worker.conftest import Meetings, kill, let_the_heartbeat_expire
from tests.worker.workflows import Long, Meeting

pytestmark = pytest.mark.chaos

Start = Callable[..., WorkerProcess]
Ledger = Callable[[Any], list[str]]
Tell = Callable[[str, object], None]


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


@pytest.mark.databases("postgresql")
@pytest.mark.timeout(240)
def test_how_long_it_takes_until_a_dead_machine_is_noticed(
    start: Start, create: Callable[..., Any], meetings: Meetings, ledger: Ledger, record_property: Tell
) -> None:
    workflow = create(Meeting)
    machine = start(GENEVA_HOUSEKEEPING_INTERVAL=1)
    in_hand = meetings.wait_for("meeting")
    another = start(GENEVA_HOUSEKEEPING_INTERVAL=1)
    machine.send_to_group(signal.SIGKILL)
    kill(in_hand)

    killed = time.monotonic()
    meetings.wait_for("meeting", attempt=2, within=180)

    record_property(
        "SIGKILL of worker and work-horse to their step running again", f"{time.monotonic() - killed:.0f} s"
    )
    meetings.let_go("meeting")
    eventually(lambda: len(ledger(workflow)) == 3, otherwise=lambda: another.output)
    assert ledger(workflow) == ["before", "meeting", "after"]
    assert broken() == []


@pytest.mark.parametrize("fork", [(), ("--no-fork",)], ids=["fork", "no-fork"])
def test_a_live_step_is_left_alone_ten_times_longer_than_every_threshold(
    fork: tuple[str, ...],
    start: Start,
    create: Callable[..., Any],
    meetings: Meetings,
    ledger: Ledger,
    story: Callable[[Any], list[tuple[str, str, str | None]]],
    extension: Geneva,
) -> None:
    short = {
        "GENEVA_STUCK_SCHEDULED_THRESHOLD": 0.5,
        "GENEVA_STUCK_IN_PROGRESS_THRESHOLD": 0.5,
        "GENEVA_HOUSEKEEPING_INTERVAL": 0.5,
    }
    workflow = create(Meeting)
    worker = start(*fork, **short)
    meetings.wait_for("meeting")
    another = start(**short)

    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 5)
    # Days later by the clock of whoever looks.
    with time_machine.travel(datetime.now(UTC) + timedelta(days=3)):
        assert extension.run_housekeeping().stuck_in_progress_recovered == 0
    meetings.let_go("meeting")

    eventually(lambda: len(ledger(workflow)) == 3, otherwise=lambda: worker.output + another.output)
    assert [outcome for _, _, outcome in story(workflow)] == ["success", "success", "success"]
    assert "recovered" not in worker.output + another.output


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
    # On a machine that has much to do the storm would be over before it begins.
    eventually(lambda: work_horses_of(worker), otherwise=lambda: worker.output)

    for _ in range(40):
        time.sleep(chance.uniform(0.02, 0.15))
        for process_id in work_horses_of(worker):
            with contextlib.suppress(ProcessLookupError):
                kill(process_id)

    eventually(lambda: all(ended(each, state, db) for each in workflows), within=60, otherwise=lambda: worker.output)
    outcomes = [each.outcome for workflow in workflows for each in workflow.execution_history]
    assert outcomes.count("recovered") > 5
    assert broken() == []
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
