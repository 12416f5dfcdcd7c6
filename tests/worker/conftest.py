"""Where steps in worker processes and their tests meet."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask_sqlalchemy import SQLAlchemy
from rq.executions import ExecutionRegistry

from flask_geneva import Geneva
from tests.harness.models import Order
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess, Workers
from tests.worker.workflows import FOLDER_VARIABLE


@dataclass(frozen=True)
class Meetings:
    """The test's side of ``meet``."""

    folder: Path

    def arrivals(self, name: str) -> list[int]:
        """The process ids of the attempts that have come, oldest first."""
        return [int(path.read_text() or 0) for path in sorted((self.folder / name).glob("*"))]

    def wait_for(self, name: str, *, attempt: int = 1, within: float = 20.0) -> int:
        """Wait for so many attempts at the step; the process id of the last one."""
        came = eventually(lambda: self.arrivals(name)[attempt - 1 :], within=within)
        return eventually(lambda: came[0] or self.arrivals(name)[attempt - 1])

    def let_go(self, name: str) -> None:
        """Let every attempt go on."""
        (self.folder / f"{name} may go").touch()


@pytest.fixture
def meetings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Meetings:
    """A folder for this test, which its worker processes know of."""
    folder = tmp_path / "meetings"
    folder.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    return Meetings(folder)


@pytest.fixture
def start(workers: Workers, meetings: Meetings) -> Callable[..., WorkerProcess]:
    """Starts a worker that knows the workflows of these tests."""

    def start(*arguments: str, **config: Any) -> WorkerProcess:
        return workers.start(*arguments, modules=["tests.worker.workflows"], config=config)

    return start


@pytest.fixture
def create(db: SQLAlchemy) -> Callable[..., Any]:
    """Creates a committed workflow with a hero of its own."""

    def create(workflow_class: Any, **options: Any) -> Any:
        order = Order()
        db.session.add(order)
        workflow = workflow_class.create(hero=order, **options)
        db.session.commit()
        return workflow

    return create


@pytest.fixture
def story(db: SQLAlchemy) -> Callable[[Any], list[tuple[str, str, str | None]]]:
    """Reads every execution as (step, state, outcome), oldest first."""

    def story(workflow: Any) -> list[tuple[str, str, str | None]]:
        db.session.rollback()
        return [
            (each.step_name, str(each.state), each.outcome and str(each.outcome)) for each in workflow.execution_history
        ]

    return story


@pytest.fixture
def state(db: SQLAlchemy) -> Callable[[Any], str]:
    """Reads the state of a workflow as it is now."""

    def state(workflow: Any) -> str:
        db.session.rollback()
        return str(workflow.state)

    return state


def kill(process_id: int) -> None:
    """End a process as the kernel does when memory is short."""
    os.kill(process_id, signal.SIGKILL)


def let_the_heartbeat_expire(extension: Geneva, job_id: str) -> None:
    """What a minute and a half does."""
    extension.redis.pexpire(ExecutionRegistry(job_id, extension.redis).key, 60_000)


@pytest.fixture
def frozen() -> Iterator[list[int]]:
    """Processes that were stopped; they are let go on when the test is over."""
    stopped: list[int] = []
    yield stopped
    for process_id in stopped:
        try:
            os.kill(process_id, signal.SIGCONT)
        except ProcessLookupError:
            continue
