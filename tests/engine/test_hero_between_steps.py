"""A job that runs straight on looks for the hero before each of its steps."""

from __future__ import annotations

from typing import Any

from flask import Flask
from sqlalchemy import delete

from flask_geneva import Workflow
from tests.engine.elsewhere import Ledger, Plan
from tests.engine.flows import PlainFlow, reload, run_job, start, states
from tests.harness.models import CompositeHero, Order, db


def straight_on(workflow: Workflow[Any]) -> Workflow[Any]:
    run_job(workflow.step_executions[0].id, runs_ahead=True)
    return reload(workflow)


def test_a_step_that_deletes_the_hero_is_the_last_one(app: Flask, plan: Plan, ledger: Ledger) -> None:
    plan["one"] = lambda running: db.session.delete(running.hero)

    workflow = straight_on(start(PlainFlow))

    assert states(workflow) == [("one", "completed", "success"), ("two", "canceled", "canceled")]
    assert (workflow.state, ledger(workflow)) == ("canceled", ["one"])


def test_also_where_somebody_else_deletes_it(app: Flask, plan: Plan) -> None:
    def delete_elsewhere(running: Any) -> None:
        db.session.commit()
        with db.engine.begin() as connection:
            connection.execute(delete(Order))

    plan["one"] = delete_elsewhere

    assert straight_on(start(PlainFlow)).state == "canceled"


def test_a_hero_may_be_a_workflow(app: Flask, plan: Plan) -> None:
    inner = start(PlainFlow)
    outer = PlainFlow.create(hero=inner)
    db.session.commit()
    assert straight_on(outer).state == "finished"

    other = PlainFlow.create(hero=inner)
    db.session.commit()
    plan["one"] = lambda running: db.session.delete(running.hero)
    assert straight_on(other).state == "canceled"


def test_a_hero_of_a_key_of_two_columns(app: Flask, plan: Plan) -> None:
    hero, twin = CompositeHero(region="north", number=1), CompositeHero(region="north", number=2)
    db.session.add_all([hero, twin])
    workflow, other = PlainFlow.create(hero=hero), PlainFlow.create(hero=twin)
    db.session.commit()
    plan["one"] = lambda running: db.session.execute(delete(CompositeHero).where(CompositeHero.number == 2))

    assert straight_on(workflow).state == "finished"
    assert straight_on(other).state == "canceled"
