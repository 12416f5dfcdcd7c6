"""A job that runs straight on asks for the hero by the statement that locks the rows, and otherwise as ever."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, select

from flask_geneva import Workflow, step
from flask_geneva.errors import ReferencedRecordMissing
from flask_geneva.records import heroes
from tests.engine.elsewhere import Ledger, Plan
from tests.engine.flows import planned, reload, run_job, start, states
from tests.harness.counting import Traffic
from tests.harness.models import CompositeHero, Order, db, write_down

Counting = Callable[[], AbstractContextManager[Traffic]]


class TwoStepFlow(Workflow[Any]):
    """Two steps that one job runs."""

    @step
    def one(self) -> None:
        write_down(self)
        planned("one", self)

    @step
    def two(self) -> None:
        write_down(self)


def straight_on(workflow: Workflow[Any]) -> Workflow[Any]:
    run_job(workflow.step_executions[0].id, runs_ahead=True)
    return reload(workflow)


def test_a_step_that_deletes_the_hero_is_the_last_one(app: Flask, plan: Plan, ledger: Ledger) -> None:
    plan["one"] = lambda running: db.session.delete(running.hero)

    workflow = straight_on(start(TwoStepFlow))

    assert states(workflow) == [("one", "completed", "success"), ("two", "canceled", "canceled")]
    assert (workflow.state, ledger(workflow)) == ("canceled", ["one"])


def test_also_where_somebody_else_deletes_it(app: Flask, plan: Plan) -> None:
    def delete_elsewhere(running: Any) -> None:
        db.session.commit()
        with db.engine.begin() as connection:
            connection.execute(delete(Order))

    plan["one"] = delete_elsewhere

    assert straight_on(start(TwoStepFlow)).state == "canceled"


def test_a_hero_may_be_a_workflow(app: Flask, ledger: Ledger, plan: Plan) -> None:
    inner = start(TwoStepFlow)
    outer = TwoStepFlow.create(hero=inner)
    db.session.commit()
    assert straight_on(outer).state == "finished"

    other = TwoStepFlow.create(hero=inner)
    db.session.commit()
    # What is looked for is the row that the hero's id names, and not the row that is locked.
    plan["one"] = lambda running: db.session.delete(running.hero)
    assert straight_on(other).state == "canceled"


def test_a_hero_of_a_key_of_two_columns(app: Flask, plan: Plan) -> None:
    hero, twin = CompositeHero(region="north", number=1), CompositeHero(region="north", number=2)
    db.session.add_all([hero, twin])
    workflow, other = TwoStepFlow.create(hero=hero), TwoStepFlow.create(hero=twin)
    db.session.commit()
    plan["one"] = lambda running: db.session.execute(delete(CompositeHero).where(CompositeHero.number == 2))

    assert straight_on(workflow).state == "finished"
    assert straight_on(other).state == "canceled"


@pytest.mark.parametrize("error", [ReferencedRecordMissing("no model"), ValueError("no key")])
def test_where_it_cannot_be_looked_for_it_is_asked_anew(
    app: Flask, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    search, errors = heroes.search, iter([None, error])
    workflow = start(TwoStepFlow)

    def unreliable(*arguments: Any) -> Any:
        found = next(errors, None)
        if found is not None:
            raise found
        return search(*arguments)

    monkeypatch.setattr(heroes, "search", unreliable)

    assert straight_on(workflow).state == "finished"
    assert ledger(workflow) == ["one", "two"]
    assert next(errors, None) is None


def test_the_answer_is_that_of_one_transaction(app: Flask, plan: Plan, counting: Counting, database_kind: str) -> None:
    workflow = start(TwoStepFlow)
    execution_id = workflow.step_executions[0].id

    with counting() as traffic:
        run_job(execution_id, runs_ahead=True)

    reads = [line for line in traffic.log if "orders" in line and "ledger" not in line and "customer_id" not in line]
    locks = [line for line in reads if "geneva_workflows" in line]
    # Each step asks once: the first for itself, and the second with the locks; the ledger's own reads are not counted.
    assert (len(reads), len(locks)) == (3, 2)
    assert db.session.scalars(select(Order.id)).all()
