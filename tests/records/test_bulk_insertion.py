"""Many rows of one kind are inserted as each alone would be, in their order, whatever they differ in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.exc import DataError

from flask_geneva.records import bulk_insertion
from flask_geneva.records.saving import insert_all
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.records.transitions import new_execution, new_workflow
from flask_geneva.records.workflow_row import WorkflowRow
from tests.harness.models import db

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
# What is alike in Python and is not the same JSON, lists that are no rows of an array, and text with what quotes it.
DETAILS = [{"at": 1}, {"at": True}, {"at": 1.0}, [1, [2]], [], '{a,"b"}', None, {"ü": "\\'"}]


def stored(number: int, **columns: Any) -> WorkflowRow:
    return new_workflow(type="Nobody", hero_type="Order", hero_id=str(number), allow_multiple=True, **columns)


def test_keys_are_given_in_the_order_of_the_rows(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_insertion, "ROWS_OF_A_STATEMENT", 7)
    rows = [stored(number) for number in reversed(range(30))]

    insert_all(db.session(), rows, now=NOW)

    found = db.session.execute(select(workflows.c.hero_id, workflows.c.id)).all()
    assert {hero_id: key for hero_id, key in found} == {row.hero_id: row.id for row in rows}
    assert [row.id for row in rows] == sorted(row.id for row in rows)


def test_rows_may_differ_in_any_column(app: Flask) -> None:
    rows = [stored(number, details=details) for number, details in enumerate(DETAILS)]
    insert_all(db.session(), rows, now=NOW)
    executions = [
        new_execution(
            workflow_id=row.id,
            step_name=f'{{"one", {number}}}',
            scheduled_for=NOW + timedelta(microseconds=number),
            job_id=None if number % 2 else f"job-{number}",
            cursor_value=details,
        )
        for number, (row, details) in enumerate(zip(rows, DETAILS, strict=True))
    ]
    insert_all(db.session(), executions, now=NOW)

    columns = ("workflow_id", "step_name", "scheduled_for", "job_id", "state", "completed_iterations")
    found = db.session.execute(select(step_executions).order_by(step_executions.c.id)).all()
    assert [[getattr(each, key) for key in columns] for each in found] == [
        [getattr(each, key) for key in columns] for each in executions
    ]
    assert [repr(each.cursor_value) for each in found] == [repr(each) for each in DETAILS]
    kept = db.session.execute(select(workflows.c.details).order_by(workflows.c.id)).scalars()
    assert [repr(each) for each in kept] == [repr(each) for each in DETAILS]


def test_rows_that_differ_in_nothing_are_as_many(app: Flask) -> None:
    rows = [new_workflow(type="Nobody", allow_multiple=True) for _ in range(3)]

    insert_all(db.session(), rows, now=NOW)

    assert len(set(db.session.execute(select(workflows.c.id)).scalars())) == 3


@pytest.mark.databases("postgresql", "mysql", "mariadb")
def test_what_does_not_fit_is_refused_and_never_cut(app: Flask) -> None:
    rows = [new_workflow(type="Nobody", hero_id=letter * 256, allow_multiple=True) for letter in "ab"]

    with pytest.raises(DataError):
        insert_all(db.session(), rows, now=NOW)
    db.session.rollback()
