"""Creation: one ongoing workflow a class and hero, whoever asks and however many at once."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, text

from flask_geneva import (
    GenevaError,
    HeroMissing,
    StepConfigurationError,
    Workflow,
    WorkflowAlreadyOngoing,
    removed_step,
    step,
)
from flask_geneva.testing import speedrun
from tests.harness.models import CompositeHero, Order, StrHero, UUIDHero, db


class CreatedFlow(Workflow[Order]):
    """Two steps."""

    @step
    def one(self) -> None:
        """Do nothing."""

    @step
    def two(self) -> None:
        """Do nothing."""


class AnyHeroFlow(Workflow[Any]):
    """For any hero."""

    @step(wait=timedelta(days=30))
    def one(self) -> None:
        """Do nothing."""


class HerolessFlow(Workflow[Any]):
    """Needs no hero."""

    may_proceed_without_hero = True

    @step
    def one(self) -> None:
        """Do nothing."""


class EmptyFlow(Workflow[Order]):
    """Has no steps."""


class OnlyGravesFlow(Workflow[Order]):
    """Has only gravestones."""

    gone = removed_step()


def new_order() -> Order:
    order = Order()
    db.session.add(order)
    return order


def test_a_new_workflow_has_one_scheduled_execution(app: Flask) -> None:
    # NEW-01, ORD-17, ORD-18
    workflow = CreatedFlow.create(hero=new_order())

    (execution,) = workflow.step_executions
    assert (workflow.state, workflow.current_step_name, workflow.next_step_name) == ("ready", None, "one")
    assert (execution.state, execution.outcome, execution.started_at) == ("scheduled", None, None)
    assert (workflow.type, workflow.started_at) == ("CreatedFlow", None)
    assert workflow.hero.id == int(workflow.hero_id or 0)


@pytest.mark.parametrize("workflow_class", [EmptyFlow, OnlyGravesFlow])
def test_without_a_step_to_run_a_workflow_is_finished_at_once(app: Flask, workflow_class: type[Workflow[Any]]) -> None:
    # NEW-02, NEW-03
    workflow = workflow_class.create(hero=new_order())

    assert workflow.state == "finished"
    assert workflow.transitioned_at is not None
    assert workflow.step_executions == []


def test_the_wait_of_the_first_step_counts_from_creation(app: Flask) -> None:
    # NEW-04
    workflow = AnyHeroFlow.create(hero=new_order())

    assert workflow.step_executions[0].scheduled_for - workflow.created_at == timedelta(days=30)


def test_a_second_one_is_refused_and_the_transaction_stays_usable(app: Flask) -> None:
    # NEW-05, NEW-07, NEW-11
    order = new_order()
    first = CreatedFlow.create(hero=order)
    first.pause()

    with pytest.raises(WorkflowAlreadyOngoing, match="an ongoing one exists") as refused:
        CreatedFlow.create(hero=order)

    assert refused.value.workflow is first
    db.session.add(Order())
    db.session.commit()
    assert len(db.session.scalars(select(CreatedFlow)).all()) == 1


def test_an_ended_one_frees_the_place(app: Flask) -> None:
    # NEW-06, OPS-66
    order = new_order()
    first = CreatedFlow.create(hero=order)
    first.cancel()
    second = CreatedFlow.create(hero=order)
    speedrun(second)

    third = CreatedFlow.create(hero=order)

    assert CreatedFlow.ongoing_for(order) is third
    assert not first.is_ongoing


def test_allow_multiple_ignores_in_both_directions(app: Flask) -> None:
    # NEW-08, NEW-09, NEW-10
    order = new_order()
    many = [CreatedFlow.create(hero=order, allow_multiple=True) for _ in range(2)]

    single = CreatedFlow.create(hero=order)
    other = AnyHeroFlow.create(hero=order)

    assert {each.state for each in [*many, single, other]} == {"ready"}


def test_without_a_hero_a_class_that_needs_one_is_refused(app: Flask) -> None:
    with pytest.raises(HeroMissing, match="may_proceed_without_hero"):
        CreatedFlow.create()


def test_no_hero_is_one_hero(app: Flask) -> None:
    # NEW-14
    HerolessFlow.create()

    with pytest.raises(WorkflowAlreadyOngoing, match="for no hero"):
        HerolessFlow.create()


def test_wrong_job_options_are_refused_before_anything_is_written(app: Flask) -> None:
    order = new_order()

    with pytest.raises(StepConfigurationError, match="priority"):
        CreatedFlow.create(hero=order, job_options={"priority": 1})

    assert db.session.scalars(select(Workflow)).all() == []


def test_options_of_one_workflow_that_cannot_be_stored_are_refused(app: Flask) -> None:
    order = new_order()

    with pytest.raises(StepConfigurationError, match=r"job_options\['meta'\] is stored with the workflow as JSON"):
        CreatedFlow.create(hero=order, job_options={"meta": {"at": timedelta(1)}})

    assert CreatedFlow.ongoing_for(order) is None


def test_a_record_that_was_only_added_has_no_ongoing_workflow(app: Flask) -> None:
    assert CreatedFlow.ongoing_for(new_order()) is None


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_record_that_is_deleted_is_no_hero(app: Flask, is_flushed: bool) -> None:
    order = new_order()
    db.session.commit()
    db.session.delete(order)
    if is_flushed:
        db.session.flush()

    with pytest.raises(GenevaError, match="as a hero: it is deleted"):
        CreatedFlow.create(hero=order)

    assert db.session.scalars(select(CreatedFlow)).all() == []


def test_get_or_create_gives_the_same_one_again(app: Flask) -> None:
    order = new_order()

    first, created = CreatedFlow.get_or_create(hero=order)
    again, created_again = CreatedFlow.get_or_create(hero=order)

    assert (created, created_again) == (True, False)
    assert again is first


def test_get_or_create_is_right_under_a_race(app: Flask) -> None:
    order = new_order()
    db.session.commit()
    order_id, found, start = order.id, [], threading.Barrier(4)

    def ask() -> None:
        with app.app_context():
            hero = db.session.get_one(Order, order_id)
            db.session.rollback()
            start.wait()
            workflow, created = CreatedFlow.get_or_create(hero=hero)
            db.session.commit()
            found.append((workflow.id, created))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({workflow_id for workflow_id, _ in found}) == 1
    assert sorted(created for _, created in found) == [False, False, False, True]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Order(),
        lambda: UUIDHero(id=uuid.uuid4()),
        lambda: StrHero(code="Ä, or  so"),
        lambda: CompositeHero(region="eu, west", number=7),
    ],
    ids=["int", "uuid", "str", "composite"],
)
def test_heroes_of_every_key_live_side_by_side(app: Flask, make: Callable[[], Any]) -> None:
    # HER-06
    hero = make()
    db.session.add(hero)
    workflow = AnyHeroFlow.create(hero=hero)
    db.session.commit()
    db.session.expire_all()

    assert workflow.hero is hero
    assert db.session.scalars(select(AnyHeroFlow).where(AnyHeroFlow.hero_is(hero))).all() == [workflow]


@pytest.mark.databases("sqlite", "postgresql")
def test_keys_that_differ_by_case_or_accents_are_different_heroes(app: Flask) -> None:
    heroes = [StrHero(code=key) for key in ("a", "A", "á")]
    db.session.add_all(heroes)

    workflows = [AnyHeroFlow.create(hero=hero) for hero in heroes]

    assert [AnyHeroFlow.ongoing_for(hero) for hero in heroes] == workflows


def test_hero_ids_compare_exactly(app: Flask) -> None:
    # Tables of the application's may merge such keys on MySQL; ours must not.
    ids = ("a", "A", "á", "a ")
    hero = StrHero(code="a")
    db.session.add(hero)
    for hero_id in ids:
        workflow = AnyHeroFlow.create(hero=hero)
        db.session.execute(
            text("UPDATE geneva_workflows SET hero_id = :new WHERE id = :id"), {"new": f"x{hero_id}", "id": workflow.id}
        )

    found = [
        db.session.scalars(select(AnyHeroFlow.id).where(AnyHeroFlow.hero_id == f"x{hero_id}")).all() for hero_id in ids
    ]

    assert [len(each) for each in found] == [1, 1, 1, 1]


def test_a_row_of_a_vanished_class_still_loads(app: Flask) -> None:
    # NEW-23, MIS-06
    workflow = CreatedFlow.create(hero=new_order())
    db.session.commit()
    workflow_id = workflow.id
    db.session.execute(text("UPDATE geneva_workflows SET type = 'VanishedFlow'"))
    db.session.commit()
    db.session.expunge_all()

    loaded = db.session.get_one(Workflow, workflow_id)

    assert (type(loaded), loaded.type) == (Workflow, "VanishedFlow")
    assert "no class named 'VanishedFlow' is declared" in loaded.explain()
    loaded.cancel()
    db.session.commit()
    assert loaded.state == "canceled"


def test_deleting_a_workflow_deletes_what_belongs_to_it(app: Flask) -> None:
    # NEW-18
    workflow = CreatedFlow.create(hero=new_order())
    workflow.signal("anything")
    db.session.commit()

    db.session.delete(workflow)
    db.session.commit()

    for table in ("geneva_workflows", "geneva_step_executions", "geneva_signals"):
        assert db.session.scalar(text(f"SELECT count(*) FROM {table}")) == 0


def test_one_of_several_is_not_the_one_that_get_or_create_answers(app: Flask) -> None:
    # NEW-09
    order = new_order()
    one_of_several = CreatedFlow.create(hero=order, allow_multiple=True)

    workflow, created = CreatedFlow.get_or_create(hero=order)

    assert created
    assert workflow is not one_of_several
