"""A worker that is told to end does so in its own time, and leaves nothing half done."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from redis import Redis
from rq import Worker
from rq.scheduler import RQScheduler
from sqlalchemy import text

from flask_geneva import Geneva
from flask_geneva.worker.running import make_worker
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess
from tests.worker.conftest import Meetings
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
def test_nothing_stays_behind(
    arguments: tuple[str, ...],
    start: Start,
    create: Callable[..., Any],
    ledger: Ledger,
    extension: Geneva,
    db: SQLAlchemy,
) -> None:
    workflow = create(Quick)
    observer = extension.redis.client()
    before = clients_of_redis(observer)
    worker = start(*arguments, GENEVA_HOUSEKEEPING_INTERVAL=1)
    eventually(lambda: len(ledger(workflow)) == 2, otherwise=lambda: worker.output)
    db.session.rollback()
    db.engine.dispose()
    assert clients_of_redis(observer) - before

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    eventually(lambda: group_is_empty(worker), within=5)
    eventually(lambda: not clients_of_redis(observer) - before, within=5)
    eventually(lambda: connections_of_others(db) == 0, within=5)
    observer.close()


def clients_of_redis(observer: Redis) -> set[str]:
    """The ids of the clients that use the database of the test, as ``redis-cli client list`` has them."""
    clients: Any = observer.client_list()
    own = next(each["db"] for each in clients if each["id"] == str(observer.client_id()))
    return {each["id"] for each in clients if each["db"] == own}


_OTHERS = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND backend_type = 'client backend' AND pid <> pg_backend_pid()",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
}


def connections_of_others(db: SQLAlchemy) -> int:
    """How many connections the server of the database has to it beside our own; SQLite has no server."""
    statement = _OTHERS.get(db.engine.url.get_backend_name())
    if statement is None:
        return 0
    with db.engine.connect() as connection:
        return int(connection.scalar(text(statement)) or 0)


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


def test_the_end_of_a_worker_does_not_wait_for_the_listener_to_look_up(
    queueing_app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = make_worker(queueing_app, ["geneva"], fork=True)
    worker.subscribe()
    listener = worker.pubsub_thread
    assert listener is not None
    assert listener.is_alive()
    # What redis-py 8.2 does, also where an older one is installed.
    monkeypatch.setattr(listener, "stop", lambda timeout=None: pytest.fail("waits for as long as the listener likes"))

    worker.unsubscribe()

    eventually(lambda: not listener.is_alive())
