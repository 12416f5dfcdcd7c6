"""Which errors of a database mean that the same work, done again, may succeed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from flask_geneva import Workflow, step
from flask_geneva.engine.policies import MAX_TRANSIENT_ERRORS
from flask_geneva.engine.transactions import is_transient
from tests.engine.flows import PLAN, PlainFlow, reload, run_job, start
from tests.harness.models import Order, StrHero, db


class SkippingAllFlow(Workflow[Order]):
    """Passes over whatever goes wrong."""

    @step(on_exception="skip")
    def one(self) -> None:
        lose_the_connection(self)

    @step
    def two(self) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def no_plan() -> Iterator[None]:
    yield
    PLAN.clear()


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


def lose_the_connection(workflow: object) -> None:
    raise OperationalError("SELECT 1", None, Exception("the server is gone"), connection_invalidated=True)


def run_step_of(workflow: Workflow[Any]) -> Workflow[Any]:
    run_job(reload(workflow).execution_history[-1].id, ignores_time=True)
    return reload(workflow)


def test_a_step_that_loses_its_connection_is_run_again_and_not_counted(
    app: Flask, ledger: Callable[[Any], list[str]]
) -> None:
    workflow = start(PlainFlow)
    PLAN["one"] = lose_the_connection
    run_step_of(workflow)

    del PLAN["one"]
    first, second = reload(workflow).execution_history

    assert (first.outcome, first.details["reattempt_reason"]) == ("reattempted", "transient_db_error")
    assert (second.state, second.error_reattempts) == ("scheduled", 0)
    assert second.scheduled_for <= datetime.now(UTC)
    run_step_of(workflow)
    assert ledger(workflow) == ["one"]


def test_a_step_that_loses_its_connection_again_and_again_is_paused(app: Flask) -> None:
    workflow = start(PlainFlow)
    PLAN["one"] = lose_the_connection

    for _ in range(MAX_TRANSIENT_ERRORS + 1):
        run_step_of(workflow)

    *before, last = workflow.execution_history
    assert {each.outcome for each in before} == {"reattempted"}
    assert before[-1].scheduled_for - before[-2].scheduled_for > timedelta(seconds=100)
    assert (last.outcome, last.error_class_name, workflow.state) == ("failed", "OperationalError", "paused")


def test_a_policy_that_is_there_decides_about_a_lost_connection(app: Flask) -> None:
    workflow = start(SkippingAllFlow)

    run_step_of(workflow)

    assert workflow.execution_history[0].outcome == "skipped"


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
