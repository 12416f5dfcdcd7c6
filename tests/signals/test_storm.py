"""Eight processes deliver ten thousand signals, a third of them again, while workers run: each step once, no error."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import func, select

from flask_geneva import Signal, SignalState, Workflow, step
from flask_geneva.records.dialects import MYSQL_DIALECTS
from tests.harness.models import LedgerEntry, Order, db, write_down
from tests.harness.waiting import eventually
from tests.harness.workers import ROOT, Workers

SENDERS, WORKFLOWS, SIGNALS = 8, 100, 10_000


class StormFlow(Workflow[Order]):
    """Parks three times."""

    @step(wait_for="go")
    def first(self) -> None:
        write_down(self)

    @step(wait_for="go")
    def second(self) -> None:
        write_down(self)

    @step(wait_for="go")
    def third(self) -> None:
        write_down(self)


SENDER = """
import json, sys
from flask_geneva import Workflow, WorkflowNotOngoing
from tests.harness.apps import make_app
from tests.harness.models import db
import tests.signals.test_storm
database_url, redis_url, path, engine_options = sys.argv[1:]
app = make_app(database_url, redis_url, SQLALCHEMY_ENGINE_OPTIONS=json.loads(engine_options))
errors = []


def send(workflow_id, key):
    try:
        db.session.get_one(Workflow, workflow_id).signal("go", {"key": key}, idempotency_key=key)
        db.session.commit()
    except WorkflowNotOngoing:
        db.session.rollback()
    except Exception as error:
        db.session.rollback()
        errors.append(f"{type(error).__name__}: {error}"[:300])
        return "Deadlock" not in errors[-1]
    finally:
        db.session.remove()
    return True


with app.app_context():
    for workflow_id, key in json.load(open(path)):
        while not send(workflow_id, key):
            pass
print(json.dumps(errors))
"""


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_a_storm_of_signals_runs_every_step_once(
    queueing_app: Flask, workers: Workers, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    errors = _storm(workers, database_url, redis_url, tmp_path)

    # Under MySQL's REPEATABLE READ a locking read locks gaps between rows, so that neighbours may deadlock. Then the
    # sender is told so and nothing of its transaction is left; it sends again.
    on_mysql = db.engine.dialect.name in MYSQL_DIALECTS
    assert [error for error in errors if not (on_mysql and "Deadlock" in error)] == []
    _each_step_ran_once()


@pytest.mark.chaos
@pytest.mark.databases(*MYSQL_DIALECTS)
@pytest.mark.timeout(600)
def test_senders_that_read_what_is_committed_do_not_deadlock(
    queueing_app: Flask, workers: Workers, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    assert _storm(workers, database_url, redis_url, tmp_path, isolation_level="READ COMMITTED") == []
    _each_step_ran_once()


def _storm(workers: Workers, database_url: str, redis_url: str, folder: Path, **engine_options: str) -> list[str]:
    """Let all senders send all they have, while two workers work; the errors that the senders saw."""
    orders = [Order() for _ in range(WORKFLOWS)]
    db.session.add_all(orders)
    db.session.flush()
    ids = [StormFlow.create(hero=order).id for order in orders]
    db.session.commit()
    for _ in range(2):
        workers.start("--no-fork", modules=[__name__])

    senders = [
        subprocess.Popen(
            [sys.executable, "-c", SENDER, database_url, redis_url, str(path), json.dumps(engine_options)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for path in _shares(ids, folder)
    ]
    told = [sender.communicate(timeout=400) for sender in senders]

    assert [sender.returncode for sender in senders] == [0] * SENDERS, told
    return [error for out, _ in told for error in json.loads(out)]


def _each_step_ran_once() -> None:
    eventually(lambda: _ongoing() == 0, within=120, otherwise=lambda: f"{_ongoing()} workflows go on")
    marks = Counter(tuple(row) for row in db.session.execute(select(LedgerEntry.workflow_id, LedgerEntry.step)))
    assert len(marks) == 3 * WORKFLOWS
    assert set(marks.values()) == {1}
    consumed = select(func.count()).select_from(Signal).where(Signal.state == SignalState.CONSUMED)
    assert db.session.scalar(consumed) == 3 * WORKFLOWS
    assert db.session.scalar(select(func.max(Signal.consumed))) == 1


def _shares(ids: list[int], folder: Path) -> list[Path]:
    """Two thirds of the signals have keys of their own, and a third repeats some of them; in a random order."""
    chance = random.Random(7)
    events = [(chance.choice(ids), f"event {number}") for number in range(SIGNALS * 2 // 3)]
    events += chance.choices(events, k=SIGNALS - len(events))
    chance.shuffle(events)
    paths = [folder / f"share-{number}.json" for number in range(SENDERS)]
    for number, path in enumerate(paths):
        path.write_text(json.dumps(events[number::SENDERS]))
    return paths


def _ongoing() -> int:
    db.session.rollback()
    return db.session.scalar(select(func.count()).select_from(Workflow).where(Workflow.is_ongoing)) or 0
