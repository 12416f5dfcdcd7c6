"""What a step and a creation cost in statements and commits; the test fails when they grow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from flask import Flask

from flask_geneva import Workflow, step
from flask_geneva.engine.executor import execute
from flask_geneva.engine.run import Run
from tests.harness.counting import Traffic
from tests.harness.models import Order, db

Record = Callable[[str, object], None]
Counting = Callable[[], AbstractContextManager[Traffic]]

STEPS = 10
# PostgreSQL writes the ended execution, the next one and the workflow in one statement.
# MySQL has no lock by an execution's key whose snapshot begins in time: one more statement for the workflow's key.
ALONE = {"sqlite": 8, "postgresql": 5, "mariadb": 9, "mysql": 9}
STRAIGHT_ON = {"sqlite": 5, "postgresql": 3, "mariadb": 5, "mysql": 5}


class BudgetFlow(Workflow[Order]):
    """Ten steps that do nothing."""

    steps_of_it = [step(lambda self: None) for _ in range(STEPS)]


def started(number: int = 1) -> list[Workflow[Any]]:
    orders = [Order() for _ in range(number)]
    db.session.add_all(orders)
    db.session.flush()
    workflows: list[Workflow[Any]] = [BudgetFlow.create(hero=order) for order in orders]
    db.session.commit()
    return workflows


def run(app: Flask, execution_id: int, *, straight_on: bool) -> None:
    execute(Run(app.extensions["geneva"].runtime, db.session(), runs_ahead=straight_on), execution_id)


def test_a_step_by_itself(app: Flask, counting: Counting, database_kind: str, record_property: Record) -> None:
    (workflow,) = started()
    execution_id = workflow.step_executions[0].id
    db.session.remove()

    with counting() as traffic:
        run(app, execution_id, straight_on=False)

    record_property(f"a step by itself on {database_kind}", traffic.summary)
    assert traffic.statements <= ALONE[database_kind]
    assert traffic.commits == 2


def test_steps_straight_on(app: Flask, counting: Counting, database_kind: str, record_property: Record) -> None:
    (workflow,) = started()
    execution_id = workflow.step_executions[0].id
    db.session.remove()

    with counting() as traffic:
        run(app, execution_id, straight_on=True)

    record_property(f"{STEPS} steps straight on, on {database_kind}", traffic.summary)
    assert traffic.statements <= STRAIGHT_ON[database_kind] * STEPS + 3
    assert traffic.commits == STEPS + 1
    db.session.add(workflow)
    db.session.refresh(workflow)
    assert workflow.state == "finished"


@pytest.mark.parametrize("number", [1, 20])
def test_a_creation(app: Flask, counting: Counting, database_kind: str, record_property: Record, number: int) -> None:
    orders = [Order() for _ in range(number)]
    db.session.add_all(orders)
    db.session.flush()

    with counting() as traffic:
        for order in orders:
            BudgetFlow.create(hero=order)

    record_property(f"creating {number} on {database_kind}", traffic.summary)
    assert traffic.statements <= 4 * number
    assert traffic.commits == 0
