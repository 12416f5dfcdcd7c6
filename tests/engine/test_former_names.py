"""A class that was renamed names its former names: rows of those are its own, and nobody writes them any more."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from click.testing import Result
from flask import Flask
from sqlalchemy import func, select, update
from sqlalchemy.orm import aliased

from flask_geneva import (
    StepConfigurationError,
    StepExecution,
    Workflow,
    WorkflowAlreadyOngoing,
    events,
    removed_step,
    step,
)
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.insights.checking import check
from flask_geneva.insights.findings import Finding
from flask_geneva.insights.gauges import read_gauges
from flask_geneva.records.tables import workflows
from flask_geneva.testing import perform_next_step, speedrun
from tests.engine.elsewhere import Ledger
from tests.engine.flows import start
from tests.harness.models import Order, db, write_down


class AdoptingFlow(Workflow[Order]):
    """Was called ParentedFlow, and OrphanedFlow before that."""

    __former_names__ = ["ParentedFlow", "OrphanedFlow"]

    @step
    def one(self) -> None:
        write_down(self)

    buried = removed_step()

    @step(wait_for="go")
    def two(self) -> None:
        write_down(self)


class AdoptingChildFlow(AdoptingFlow):
    """A subclass inherits the steps of its parent and not its former names."""

    @step
    def three(self) -> None:
        write_down(self)


def an_old_row(name: str = "ParentedFlow") -> Any:
    """A workflow as the code of yesterday has written it, loaded by the code of today."""
    workflow_id = start(AdoptingFlow).id
    db.session.execute(update(workflows).where(workflows.c.id == workflow_id).values(type=name))
    db.session.commit()
    db.session.expunge_all()
    return db.session.scalars(select(Workflow).where(Workflow.id == workflow_id)).one()


@pytest.mark.parametrize("name", ["ParentedFlow", "OrphanedFlow"])
def test_an_old_row_loads_as_the_new_class_runs_and_keeps_its_name(app: Flask, ledger: Ledger, name: str) -> None:
    workflow = an_old_row(name)
    assert (type(workflow), workflow.type) == (AdoptingFlow, name)
    assert "no class" not in workflow.explain()

    workflow.signal("go")
    speedrun(workflow)

    assert ledger(workflow) == ["one", "two"]
    assert (workflow.state, workflow.type) == ("finished", name)


def test_an_old_row_is_found_through_the_new_class_and_its_parents_only(app: Flask) -> None:
    old, new = an_old_row(), start(AdoptingFlow)
    child = start(AdoptingChildFlow)
    db.session.commit()

    def found(entity: Any) -> set[int]:
        return {each.id for each in db.session.scalars(select(entity))}

    assert found(AdoptingFlow) == found(aliased(AdoptingFlow)) == {old.id, new.id, child.id}
    assert found(AdoptingChildFlow) == {child.id}
    assert db.session.scalar(select(func.count()).select_from(AdoptingFlow)) == 3
    assert db.session.get(AdoptingFlow, old.id) is old
    by_step = select(AdoptingFlow.id).join(StepExecution, StepExecution.workflow_id == AdoptingFlow.id)
    assert set(db.session.scalars(by_step)) == {old.id, new.id, child.id}


def test_an_ongoing_old_row_holds_the_place_of_its_hero(app: Flask) -> None:
    old = an_old_row()
    hero = old.hero

    with pytest.raises(WorkflowAlreadyOngoing) as refusal:
        AdoptingFlow.create(hero=hero)

    assert refusal.value.workflow is old
    assert AdoptingFlow.get_or_create(hero=hero) == (old, False)
    assert AdoptingFlow.ongoing_for(hero) is old
    assert AdoptingFlow.create(hero=hero, allow_multiple=True).type == "AdoptingFlow"


def test_of_many_none_is_created_where_one_has_an_ongoing_old_row(app: Flask) -> None:
    old, other = an_old_row(), Order()
    db.session.add(other)

    with pytest.raises(WorkflowAlreadyOngoing) as refusal:
        AdoptingFlow.create_many([other, old.hero])

    assert refusal.value.workflow is old
    assert AdoptingFlow.ongoing_for(other) is None


def test_an_old_row_that_has_ended_holds_no_place(app: Flask) -> None:
    old = an_old_row()
    old.cancel()

    created, is_new = AdoptingFlow.get_or_create(hero=old.hero)

    assert (is_new, created.type) == (True, "AdoptingFlow")


def test_only_a_class_that_had_other_names_looks_for_rows_of_them(app: Flask, counting: Any) -> None:
    order = Order()
    db.session.add(order)
    db.session.commit()
    order.id  # noqa: B018 (load it outside the count)

    with counting() as plain:
        AdoptingChildFlow.create(hero=order)
    with counting() as renamed:
        AdoptingFlow.create(hero=order)

    assert renamed.statements - plain.statements == 1


def test_old_rows_count_as_those_of_the_class_in_gauges_and_removed_steps(app: Flask) -> None:
    old, new = an_old_row(), start(AdoptingFlow)
    for workflow in (old, new):
        workflow.current_execution.step_name = "buried"
    db.session.commit()

    gauges = read_gauges(db.session(), current_runtime()).classes

    assert gauges["AdoptingFlow"].workflows["ready"] == 2
    assert "ParentedFlow" not in gauges
    assert AdoptingFlow.removed_steps_in_flight() == {"buried": 2}


def findings(kind: str) -> list[Finding]:
    report = check(db.session(), current_runtime())
    return [each for each in (*report.problems, *report.advice) if each.kind == kind and "Adopting" in each.text]


def test_check_knows_old_rows_and_says_when_a_former_name_can_go(app: Flask) -> None:
    old, new = an_old_row(), start(AdoptingFlow)
    db.session.commit()
    assert findings("unknown_class") == []
    assert ["'OrphanedFlow'" in each.text for each in findings("former_name_can_go")] == [True]

    for workflow in (old, new):
        workflow.current_execution.step_name = "vanished"
    db.session.commit()

    (vanished,) = findings("unknown_step")
    assert (vanished.class_name, vanished.count, vanished.workflow_id) == ("AdoptingFlow", 2, old.id)


def commands(app: Flask, *arguments: str) -> Result:
    with app.app_context():
        return app.test_cli_runner().invoke(args=["geneva", *arguments])


@pytest.mark.parametrize("name", ["AdoptingFlow", "ParentedFlow"])
def test_the_command_line_means_the_class_by_its_name_or_a_former_one(app: Flask, name: str) -> None:
    ids = {an_old_row().id, start(AdoptingFlow).id}
    db.session.commit()

    listed = commands(app, "list", "--class", name, "--step", "one", "--json")
    assert {each["id"] for each in json.loads(listed.stdout)} == ids

    paused = commands(app, "pause", "--class", name, "--yes")
    assert paused.exit_code == 0
    db.session.rollback()
    assert set(db.session.scalars(select(workflows.c.state))) == {"paused"}
    assert "one" in commands(app, "graph", name).stdout


def test_events_and_logs_call_the_class_by_its_name_of_today(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def hear(sender: object, **facts: Any) -> None:
        heard.append(facts["workflow_class"])

    workflow = an_old_row()
    with (
        events.step_started.connected_to(hear, app),
        events.signal_received.connected_to(hear, app),
        events.workflow_finished.connected_to(hear, app),
        caplog.at_level(logging.INFO, "flask_geneva"),
    ):
        perform_next_step(workflow)
        perform_next_step(workflow)
        workflow.logger.info("Parked.")
        workflow.signal("go")
        speedrun(workflow)

    assert set(heard) == {"AdoptingFlow"}
    assert len(heard) == 4
    assert [record.name for record in caplog.records] == ["flask_geneva.workflow.AdoptingFlow"] * 2


def declared(name: str, **body: Any) -> type[Workflow[Any]]:
    return type(name, (Workflow,), {"__module__": __name__, "__qualname__": name, **body})


@pytest.mark.parametrize("name", ["ParentedFlow", "AdoptingFlow", "Workflow"])
def test_a_former_name_that_another_class_has_or_had_is_refused(name: str) -> None:
    with pytest.raises(StepConfigurationError, match=f"Usurper: rows named '{name}' cannot belong to both"):
        declared("Usurper", __former_names__=[name])


def test_a_class_that_is_called_like_a_former_one_is_refused() -> None:
    with pytest.raises(
        StepConfigurationError, match=r"'OrphanedFlow' .*AdoptingFlow and .*OrphanedFlow.*__former_names"
    ):
        declared("OrphanedFlow")


@pytest.mark.parametrize(
    ("value", "phrase"),
    [
        ("OldName", "must be a list"),
        ([""], "non-empty str"),
        (["Once", "Once"], "once"),
        (["Mistaken"], "which it has now"),
        (["x" * 256], "255"),
    ],
)
def test_a_mistake_in_the_list_is_refused(value: Any, phrase: str) -> None:
    with pytest.raises(StepConfigurationError, match=phrase):
        declared("Mistaken", __former_names__=value)
