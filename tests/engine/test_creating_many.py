"""Many workflows in one call: each as create() makes it, all or none, with few statements and one trip to the queue."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Table, func, select
from sqlalchemy.exc import IntegrityError

from flask_geneva import (
    GenevaError,
    HeroMissing,
    StepConfigurationError,
    StepExecution,
    Workflow,
    WorkflowAlreadyOngoing,
    events,
    step,
)
from flask_geneva.engine import creation
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.testing import speedrun
from tests.harness.counting import Traffic
from tests.harness.models import CompositeHero, Order, StrHero, db, write_down

Counting = Callable[[], AbstractContextManager[Traffic]]


class MultitudeFlow(Workflow[Any]):
    """Two steps, the second after a while."""

    @step
    def one(self) -> None:
        write_down(self)

    @step(wait=timedelta(days=1))
    def two(self) -> None:
        write_down(self)


class LateMultitudeFlow(Workflow[Any]):
    """Begins after a while; needs no hero."""

    may_proceed_without_hero = True
    job_options = {"queue": "late"}

    @step(wait=timedelta(hours=1))
    def only(self) -> None:
        """Do nothing."""


class SteplessMultitudeFlow(Workflow[Any]):
    """Has no steps."""


def orders(number: int) -> list[Order]:
    added = [Order() for _ in range(number)]
    db.session.add_all(added)
    return added


def stored() -> int:
    return db.session.scalar(select(func.count()).select_from(Workflow)) or 0


def test_each_hero_has_its_own_workflow_with_its_first_execution(app: Flask) -> None:
    heroes = orders(50)

    created = MultitudeFlow.create_many(heroes)

    assert [workflow.hero for workflow in created] == heroes
    for workflow in created:
        [execution] = workflow.execution_history
        assert (workflow.state, workflow.next_step_name, workflow.allow_multiple) == ("ready", "one", False)
        assert (execution.step_name, execution.state) == ("one", "scheduled")
        assert execution.scheduled_for <= execution.created_at == workflow.created_at
    jobs = db.session.scalars(select(StepExecution.job_id)).all()
    assert len(set(jobs)) == 50


def test_they_are_the_same_rows_as_create_writes(app: Flask) -> None:
    one, other = orders(2)
    by_create = LateMultitudeFlow.create(hero=one, job_options={"meta": {"a": 1}})
    [by_many] = LateMultitudeFlow.create_many([other], job_options={"meta": {"a": 1}})
    db.session.commit()

    assert row_of(workflows, by_many.id) == row_of(workflows, by_create.id)
    first, second = by_create.execution_history[0], by_many.execution_history[0]
    assert row_of(step_executions, second.id) == row_of(step_executions, first.id)
    execution = by_many.execution_history[0]
    assert execution.scheduled_for - execution.created_at == timedelta(hours=1)


def row_of(table: Table, row_id: int) -> dict[str, Any]:
    """What does not differ from workflow to workflow."""
    row = db.session.execute(select(table).where(table.c.id == row_id)).one()._asdict()
    own = {"id", "hero_id", "workflow_id", "job_id", "created_at", "updated_at", "scheduled_for"}
    return {key: value for key, value in row.items() if key not in own}


@pytest.mark.databases("postgresql", "mariadb")
def test_ten_times_as_many_take_the_same_statements(app: Flask, counting: Counting) -> None:
    heroes = orders(550)
    db.session.commit()
    assert all(hero.id for hero in heroes)

    spent = []
    for part in (heroes[:50], heroes[50:]):
        with counting() as traffic:
            MultitudeFlow.create_many(part)
        spent.append(traffic.statements)

    # The savepoint and its release, the workflows, their executions.
    assert spent == [4, 4]


def test_all_jobs_go_to_the_queue_in_one_round_trip(queueing_app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    redis = queueing_app.extensions["geneva"].queue.redis
    trips: list[int] = []
    pipeline = redis.pipeline
    monkeypatch.setattr(redis, "pipeline", lambda *args, **kwargs: trips.append(1) or pipeline(*args, **kwargs))
    geneva = queueing_app.extensions["geneva"].geneva

    MultitudeFlow.create_many(orders(30))
    LateMultitudeFlow.create_many(orders(20))
    assert trips == []
    db.session.commit()

    assert len(trips) == 1
    assert geneva.queue().count == 30
    assert geneva.queue("late").scheduled_job_registry.count == 20


def test_a_rollback_leaves_nothing_and_sends_nothing(queueing_app: Flask) -> None:
    MultitudeFlow.create_many(orders(5))

    db.session.rollback()
    db.session.commit()

    assert stored() == 0
    assert queueing_app.extensions["geneva"].geneva.queue().count == 0


def test_the_one_that_has_an_ongoing_workflow_is_named_and_nothing_is_written(app: Flask) -> None:
    heroes = orders(5)
    ongoing = MultitudeFlow.create(hero=heroes[3])

    with pytest.raises(WorkflowAlreadyOngoing, match=f"for Order {heroes[3].id}: an ongoing one") as refused:
        MultitudeFlow.create_many(heroes)

    assert refused.value.workflow is ongoing
    db.session.add(Order())
    db.session.commit()
    assert stored() == 1


def test_a_hero_that_is_named_twice_is_refused(app: Flask) -> None:
    one, other = orders(2)

    with pytest.raises(WorkflowAlreadyOngoing, match="it is named twice"):
        MultitudeFlow.create_many([one, other, one])

    assert stored() == 0
    assert len(MultitudeFlow.create_many([one, other, one], allow_multiple=True)) == 3
    assert len(MultitudeFlow.create_many([one, other])) == 2


def test_heroes_of_every_kind_of_key_and_none(app: Flask) -> None:
    heroes = [StrHero(code="a:b"), CompositeHero(region="eu", number=1), *orders(1)]
    db.session.add_all(heroes)

    created = LateMultitudeFlow.create_many([*heroes, None])

    assert [workflow.hero for workflow in created] == [*heroes, None]
    with pytest.raises(WorkflowAlreadyOngoing, match="for no hero"):
        LateMultitudeFlow.create_many([None])


def test_a_missing_hero_is_refused_before_anything_is_written(app: Flask) -> None:
    with pytest.raises(HeroMissing, match="may_proceed_without_hero"):
        MultitudeFlow.create_many([*orders(2), None])

    assert stored() == 0


def test_what_is_no_stored_record_is_refused_before_anything_is_written(app: Flask) -> None:
    with pytest.raises(GenevaError, match="not stored yet"):
        MultitudeFlow.create_many([*orders(2), Order()])
    with pytest.raises(StepConfigurationError, match=r"MultitudeFlow\.create_many"):
        MultitudeFlow.create_many(orders(1), job_options={"priority": 1})

    assert stored() == 0


def test_no_heroes_are_no_workflows(app: Flask) -> None:
    assert MultitudeFlow.create_many([]) == []
    assert MultitudeFlow.create_many(iter(orders(2)))[1].is_ongoing


def test_workflows_without_steps_are_finished(app: Flask) -> None:
    created = SteplessMultitudeFlow.create_many(orders(3))

    assert {workflow.state for workflow in created} == {"finished"}


def test_each_is_announced_after_the_commit(app: Flask) -> None:
    seen: list[Any] = []

    def note(sender: Flask, **facts: Any) -> None:
        seen.append((facts["workflow_id"], facts["hero_id"]))

    with events.workflow_created.connected_to(note):
        created = MultitudeFlow.create_many(orders(3))
        assert seen == []
        db.session.commit()

    assert seen == [(workflow.id, workflow.hero_id) for workflow in created]


def test_they_run(app: Flask, ledger: Callable[[Any], list[str]]) -> None:
    created = MultitudeFlow.create_many(orders(2))
    db.session.commit()

    for workflow in created:
        speedrun(workflow)

    assert [ledger(workflow) for workflow in created] == [["one", "two"]] * 2


def test_one_that_ended_when_it_was_looked_for_lets_them_be_created(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    heroes = orders(3)
    insert_all = creation.insert_all
    refusals = [IntegrityError("INSERT", {}, Exception("taken"))]

    def refused_once(*arguments: Any, **options: Any) -> None:
        if refusals:
            raise refusals.pop()
        insert_all(*arguments, **options)

    monkeypatch.setattr(creation, "insert_all", refused_once)

    created = MultitudeFlow.create_many(heroes)

    assert [workflow.hero for workflow in created] == heroes


@pytest.mark.databases("sqlite", "mariadb")
def test_a_thousand_creations_behind_savepoints_are_sent_by_one_commit_each_once(queueing_app: Flask) -> None:
    heroes = orders(1000)
    for hero in heroes:
        with db.session.begin_nested():
            MultitudeFlow.create(hero=hero)

    db.session.commit()

    assert queueing_app.extensions["geneva"].geneva.queue().count == 1000
