"""A signal costs the same among few workflows and among many: the statements, and what the database looks at."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import insert, select, text

from flask_geneva import Workflow, step
from flask_geneva.records.tables import signals, step_executions, workflows
from tests.engine.flows import reload, run_job, start
from tests.harness.counting import Traffic
from tests.harness.models import Order, db
from tests.harness.plans import plans_of
from tests.signals.flows import parked

Counting = Callable[[], AbstractContextManager[Traffic]]

# Lock, insert, look for what is parked, update the signal and the execution, and the savepoint around them.
SIGNAL = {"sqlite": 7, "postgresql": 7, "mariadb": 9, "mysql": 9}
# The key that is known is looked for in their place.
DUPLICATE = {"sqlite": 5, "postgresql": 5, "mariadb": 7, "mysql": 7}


class CrowdFlow(Workflow[Order]):
    """Waits for a signal."""

    @step(wait_for="go")
    def go(self) -> None:
        """Do nothing."""


def crowd(number: int) -> None:
    """Write so many parked workflows, each with some history and a signal of another name."""
    one = parked(CrowdFlow).execution_history[0]
    stamps = {"created_at": one.created_at, "updated_at": one.updated_at}
    common = {"type": "CrowdFlow", "state": "ready", "next_step_name": "go", "allow_multiple": True, **stamps}
    db.session.execute(insert(workflows), [common] * number)
    ids = db.session.scalars(select(workflows.c.id).where(workflows.c.id > one.workflow_id)).all()
    attempt = {"step_name": "go", "scheduled_for": one.scheduled_for, **stamps}
    states = ("completed", "failed", "waiting")
    attempts = [{"workflow_id": each, "state": state, **attempt} for each in ids for state in states]
    db.session.execute(insert(step_executions), attempts)
    other = {"name": "other", "state": "pending", "payload": {}, **stamps}
    db.session.execute(insert(signals), [{"workflow_id": each, **other} for each in ids])
    db.session.commit()


@pytest.mark.parametrize("others", [0, 2000])
def test_a_signal_takes_the_same_statements_among_few_and_many(
    app: Flask, counting: Counting, database_kind: str, others: int
) -> None:
    if others:
        crowd(others)
    workflow = parked(CrowdFlow)
    db.session.rollback()
    workflow_id = workflow.id

    with counting() as traffic:
        db.session.get_one(Workflow, workflow_id).signal("go", {"n": 1}, idempotency_key="once")
        db.session.commit()

    assert (traffic.statements, traffic.commits) == (SIGNAL[database_kind], 1)


def test_a_duplicate_takes_fewer(app: Flask, counting: Counting, database_kind: str) -> None:
    workflow = parked(CrowdFlow)
    workflow.signal("go", {"n": 1}, idempotency_key="once")
    db.session.commit()
    workflow_id = workflow.id

    with counting() as traffic:
        db.session.get_one(Workflow, workflow_id).signal("go", {"n": 1}, idempotency_key="once")
        db.session.commit()

    assert (traffic.statements, traffic.commits) == (DUPLICATE[database_kind], 1)


@pytest.mark.databases("postgresql")
def test_no_statement_of_a_rendezvous_reads_a_whole_table(app: Flask) -> None:
    crowd(5000)
    receiver, early, paused = parked(CrowdFlow), start(CrowdFlow), parked(CrowdFlow)
    paused.pause()
    paused.signal("go")
    early.signal("go")
    early_id = early.execution_history[0].id
    db.session.commit()
    for table in ("workflows", "step_executions", "signals"):
        db.session.execute(text(f"ANALYZE geneva_{table}"))
    db.session.commit()

    plans = plans_of(lambda: rendezvous(receiver, paused, early_id))

    assert len(plans) > 10
    assert [plan for plan in plans if "Seq Scan on geneva" in plan] == []


def rendezvous(receiver: Workflow[Any], paused: Workflow[Any], early_id: int) -> None:
    """A wake-up, its duplicate, a gate that finds its signal, and a resume that does."""
    for _ in range(2):
        receiver.signal("go", idempotency_key="once")
    paused.resume()
    db.session.commit()
    run_job(early_id)
    assert [signal.state for signal in reload(receiver).signals] == ["claimed"]
