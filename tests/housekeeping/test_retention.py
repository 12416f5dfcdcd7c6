"""Ended workflows are deleted when they are old enough, with all that belongs to them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import func, select, text, update

from flask_geneva import Geneva, Workflow
from flask_geneva.records.tables import signals, step_executions, workflows
from tests.housekeeping.workflows import Errand, Parked, ago, create, write_workflow


def ended(*, days: int, state: str = "finished") -> Workflow[Any]:
    """A workflow that ended so many days ago."""
    workflow = create(Errand)
    write_workflow(workflow, state=state, transitioned_at=ago(days=days))
    return workflow


def close_executions(db: SQLAlchemy) -> None:
    """Leave nothing for the other sections to do."""
    db.session.execute(update(step_executions).values({"state": "completed"}))
    db.session.commit()


def ids_in(db: SQLAlchemy) -> list[int]:
    """The workflows that are left."""
    return list(db.session.scalars(select(workflows.c.id).order_by(workflows.c.id)))


@pytest.mark.parametrize("state", ["finished", "canceled"])
def test_a_workflow_that_ended_long_ago_is_deleted_with_its_executions(
    state: str, app: Flask, extension: Geneva, db: SQLAlchemy
) -> None:
    """HSK-02, HSK-03"""
    ended(days=31, state=state)
    recent = ended(days=29, state=state)
    close_executions(db)

    summary = extension.run_housekeeping()

    assert ids_in(db) == [recent.id]
    assert list(db.session.scalars(select(step_executions.c.workflow_id))) == [recent.id]
    assert (summary.workflows_cleaned_up, summary.step_executions_cleaned_up) == (1, 1)


@pytest.mark.parametrize("app_config", [{"GENEVA_DELETE_COMPLETED_WORKFLOWS_AFTER": None}])
def test_without_a_retention_everything_is_kept(app: Flask, extension: Geneva, db: SQLAlchemy) -> None:
    """HSK-01"""
    old = ended(days=365)

    extension.run_housekeeping()

    assert ids_in(db) == [old.id]


@pytest.mark.parametrize("state", ["ready", "performing", "paused"])
def test_an_ongoing_workflow_is_never_deleted(state: str, app: Flask, extension: Geneva, db: SQLAlchemy) -> None:
    """HSK-04"""
    old = ended(days=365, state=state)

    extension.run_housekeeping()

    assert ids_in(db) == [old.id]


def test_age_is_counted_from_the_end_and_not_from_the_creation(app: Flask, extension: Geneva, db: SQLAlchemy) -> None:
    """HSK-05"""
    workflow = ended(days=1)
    write_workflow(workflow, created_at=ago(days=400), updated_at=ago(days=400))

    extension.run_housekeeping()

    assert ids_in(db) == [workflow.id]


@pytest.mark.parametrize("app_config", [{"GENEVA_HOUSEKEEPING_BATCH_SIZE": 2}])
def test_all_batches_are_deleted(app: Flask, extension: Geneva, db: SQLAlchemy) -> None:
    """HSK-06"""
    for _ in range(5):
        ended(days=31)

    summary = extension.run_housekeeping()

    assert summary.workflows_cleaned_up == summary.step_executions_cleaned_up == 5
    assert ids_in(db) == []


def test_signals_are_deleted_with_their_workflow(app: Flask, extension: Geneva, db: SQLAlchemy) -> None:
    """HSK-07"""
    old, recent = create(Parked), create(Parked)
    for workflow in (old, recent):
        workflow.signal("paid")
        workflow.signal("paid again")
    db.session.commit()
    write_workflow(old, state="finished", transitioned_at=ago(days=31))

    summary = extension.run_housekeeping()

    assert summary.signals_cleaned_up == 2
    assert set(db.session.scalars(select(signals.c.workflow_id))) == {recent.id}


def test_rows_are_deleted_in_bulk(app: Flask, extension: Geneva, db: SQLAlchemy, counting: Any) -> None:
    """HSK-08"""
    for _ in range(20):
        ended(days=31)
    close_executions(db)

    with counting() as traffic:
        extension.run_housekeeping()

    assert sum("DELETE" in entry for entry in traffic.log) == 2


@pytest.mark.parametrize("app_config", [{"GENEVA_HOUSEKEEPING_BATCH_SIZE": 7}])
def test_no_statement_deletes_more_than_a_batch(app: Flask, extension: Geneva, db: SQLAlchemy, counting: Any) -> None:
    for _ in range(20):
        ended(days=31)
    close_executions(db)

    with counting() as traffic:
        extension.run_housekeeping()

    # Seven, seven and six workflows, each after its execution, and each batch in a transaction of its own.
    deletes = [place for place, entry in enumerate(traffic.log) if "DELETE" in entry]
    assert len(deletes) == 6
    assert all("COMMIT" in traffic.log[first:second] for first, second in itertools.pairwise(deletes))
    assert ids_in(db) == []


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_a_workflow_that_the_application_refers_to_does_not_keep_the_others(
    app: Flask, extension: Geneva, db: SQLAlchemy
) -> None:
    """HSK-25 (B-15)"""
    kept, *_ = (ended(days=31) for _ in range(4))
    close_executions(db)
    with db.engine.begin() as connection:
        reference = "workflow_id BIGINT REFERENCES geneva_workflows (id)"
        if connection.dialect.name != "postgresql":
            reference = "workflow_id BIGINT, FOREIGN KEY (workflow_id) REFERENCES geneva_workflows (id)"
        connection.execute(text(f"CREATE TABLE invoices_of_the_test ({reference})"))
        connection.execute(text("INSERT INTO invoices_of_the_test VALUES (:id)"), {"id": kept.id})

    try:
        summary = extension.run_housekeeping()

        assert ids_in(db) == [kept.id]
        assert (summary.workflows_cleaned_up, summary.failures) == (3, 1)
    finally:
        db.session.rollback()
        with db.engine.begin() as connection:
            connection.execute(text("DROP TABLE invoices_of_the_test"))


def test_nothing_is_left_over(app: Flask, extension: Geneva, db: SQLAlchemy) -> None:
    workflow = create(Parked)
    workflow.signal("paid")
    db.session.commit()
    write_workflow(workflow, state="canceled", transitioned_at=ago(days=31))

    extension.run_housekeeping()

    counts = [
        db.session.scalar(select(func.count()).select_from(each)) for each in (workflows, step_executions, signals)
    ]
    assert counts == [0, 0, 0]
