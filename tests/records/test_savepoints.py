"""A deadlock behind a savepoint reaches the caller as a deadlock, not as a savepoint that is missing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from sqlalchemy import Connection, select, text, update
from sqlalchemy.exc import OperationalError

from flask_geneva.records.dialects import MYSQL_DIALECTS
from flask_geneva.records.savepoints import savepoint
from tests.harness.models import Order, db
from tests.harness.waiting import eventually

_WAITING = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"


def _lock(connection: Connection, order_id: int) -> None:
    connection.execute(select(Order.id).where(Order.id == order_id).with_for_update())


def _is_waited_for() -> bool:
    with db.engine.connect() as connection:
        return bool(connection.scalar(text(_WAITING)))


@pytest.mark.databases(*MYSQL_DIALECTS)
def test_a_deadlock_is_reported_as_one(app: Flask) -> None:
    db.session.add_all([Order(state="first"), Order(state="second"), *(Order(state="many") for _ in range(50))])
    db.session.commit()
    first, second = db.session.scalars(select(Order.id).where(Order.state != "many").order_by(Order.id))
    db.session.commit()

    with db.engine.connect() as other, ThreadPoolExecutor(1) as pool:
        # InnoDB undoes the transaction that has written less.
        other.execute(update(Order).where(Order.id > second).values(state="written"))
        _lock(other, first)
        _lock(db.session.connection(), second)
        waiting = pool.submit(_lock, other, second)
        eventually(_is_waited_for)
        with pytest.raises(OperationalError) as caught, savepoint(db.session):
            _lock(db.session.connection(), first)
        db.session.rollback()
        waiting.result(timeout=20)

    assert caught.value.orig is not None
    assert caught.value.orig.args[0] == 1213
    assert db.session.get_one(Order, first).state == "first"
