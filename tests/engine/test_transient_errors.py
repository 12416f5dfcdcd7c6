"""Which errors of a database mean that the same work, done again, may succeed."""

from __future__ import annotations

import threading

import pytest
from flask import Flask
from sqlalchemy import update
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from flask_geneva.engine.transactions import is_transient
from tests.harness.models import Order, StrHero, db


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_a_deadlock_in_a_savepoint_is_transient(app: Flask) -> None:
    orders = [Order(), Order()]
    db.session.add_all(orders)
    db.session.commit()
    ids, errors, together = [order.id for order in orders], [], threading.Barrier(2)

    def lock_both(first: int, second: int) -> None:
        with app.app_context():
            try:
                with db.session.begin_nested():
                    db.session.execute(update(Order).where(Order.id == first).values(amount=1))
                    together.wait(10)
                    db.session.execute(update(Order).where(Order.id == second).values(amount=1))
                db.session.commit()
            except DBAPIError as error:
                errors.append(error)

    threads = [threading.Thread(target=lock_both, args=pair) for pair in (ids, ids[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [is_transient(error) for error in errors] == [True]


def test_what_a_constraint_refuses_is_not_transient(app: Flask) -> None:
    db.session.add(StrHero(code="taken"))
    db.session.commit()
    db.session.expunge_all()
    db.session.add(StrHero(code="taken"))

    with pytest.raises(IntegrityError) as caught:
        db.session.flush()
    db.session.rollback()

    assert not is_transient(caught.value)


def test_a_routine_that_mysql_does_not_know_is_not_transient() -> None:
    original = Exception(1305, "FUNCTION shop.discount does not exist")

    assert not is_transient(OperationalError("SELECT discount()", None, original))
