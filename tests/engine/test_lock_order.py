"""The workflow's row is locked before its execution's: whoever waits for the first holds nothing of the second."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import Connection, select, text
from sqlalchemy.orm import Session

from flask_geneva import Workflow, step
from flask_geneva.engine.transactions import lock_both, lock_execution
from flask_geneva.records.tables import step_executions, workflows
from tests.harness.models import Order, db
from tests.harness.waiting import eventually


class LockedFlow(Workflow[Order]):
    """One step."""

    @step
    def only(self) -> None:
        """Do nothing."""


Lock = Callable[[Session, int, int], object]


@pytest.mark.databases("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize(
    "lock", [lambda session, workflow_id, execution_id: lock_execution(session, execution_id), lock_both]
)
def test_an_execution_is_not_locked_while_its_workflow_is_waited_for(app: Flask, lock: Lock) -> None:
    # DBS-08
    order = Order()
    db.session.add(order)
    db.session.flush()
    workflow = LockedFlow.create(hero=order)
    workflow_id, execution_id = workflow.id, workflow.step_executions[0].id
    db.session.commit()
    engine = db.engine

    def lock_elsewhere() -> None:
        with Session(engine) as session:
            lock(session, workflow_id, execution_id)
            session.rollback()

    with engine.connect() as holder, engine.connect() as observer:
        holder.execute(select(workflows.c.id).where(workflows.c.id == workflow_id).with_for_update())
        other = threading.Thread(target=lock_elsewhere)
        other.start()
        # InnoDB shows a cached answer to whoever asks more often than every tenth of a second.
        eventually(lambda: _somebody_waits(observer), every=0.2)
        free = select(step_executions.c.id).where(step_executions.c.id == execution_id).with_for_update(nowait=True)
        assert observer.execute(free).scalar_one() == execution_id
        observer.rollback()
        holder.rollback()
        other.join()


def _somebody_waits(connection: Connection) -> bool:
    waiting = {
        "postgresql": "SELECT count(*) FROM pg_locks WHERE NOT granted",
        "mysql": "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
    }
    count = connection.execute(text(waiting[connection.dialect.name])).scalar_one()
    connection.rollback()
    return bool(count)
