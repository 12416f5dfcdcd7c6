"""A column that the database lacks reads as one that nobody has written to, wherever a statement names it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, MetaData, Select, create_engine, func, select, text
from sqlalchemy.orm import Session, aliased

from flask_geneva import MigrationMissing, StepExecution
from flask_geneva.records.later_columns import known_lacking, later_columns_of, storable
from flask_geneva.records.missing_schema import listen
from flask_geneva.records.tables import register_tables, step_executions

C = step_executions.c
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def rename(connection: Connection, old: str, new: str) -> None:
    connection.execute(text(f"ALTER TABLE geneva_step_executions RENAME COLUMN {old} TO {new}"))


@pytest.fixture
def engine(blank_database_url: str) -> Iterator[Engine]:
    """A database with one step execution, which lacks every column that may be lacking."""
    engine = create_engine(blank_database_url)
    listen(engine)
    metadata = MetaData()
    register_tables(metadata, engine.dialect.name)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO geneva_workflows (type, state, allow_multiple, created_at, updated_at)"
                " VALUES ('F', 'ready', :no, :now, :now)"
            ),
            {"now": NOW, "no": False},
        )
        connection.execute(
            step_executions.insert().values(
                workflow_id=1,
                step_name="a",
                state="scheduled",
                scheduled_for=NOW,
                created_at=NOW,
                updated_at=NOW,
                error_reattempts=0,
                death_reattempts=0,
            )
        )
        for name in later_columns_of(step_executions):
            rename(connection, name, f"without_{name}")
    yield engine
    engine.dispose()


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    # The process has seen the columns, and is told of their absence by the first error.
    with engine.connect() as connection, pytest.raises(MigrationMissing, match="flask db upgrade"):
        connection.execute(select(step_executions))
    with Session(engine) as session:
        yield session


def test_an_object_is_read_whole(session: Session) -> None:
    execution = session.get_one(StepExecution, 1)

    assert {name: getattr(execution, name) for name in later_columns_of(step_executions)} == {
        "waiting_since": None,
        "deadline_at": None,
        "continues_from_id": None,
        "signal_id": None,
        "cursor_value": None,
        "completed_iterations": 0,
        "iteration_total": None,
        "items_done": None,
        "stalled_runs": 0,
    }
    session.refresh(execution)
    assert (execution.step_name, execution.scheduled_for, execution.stalled_runs) == ("a", NOW, 0)


ALIAS = aliased(StepExecution)
INNER = select(step_executions).subquery()
EXPRESSIONS: dict[str, tuple[Select[Any], Any]] = {
    "a column": (select(C.completed_iterations), 0),
    "a label": (select(C.completed_iterations.label("done")), 0),
    "a function": (select(func.sum(C.completed_iterations + 1)), 1),
    "another function": (select(func.count(C.deadline_at)), 0),
    "a coalesced one": (select(func.coalesce(C.deadline_at, C.scheduled_for)), NOW),
    "a condition": (select(C.id).where(C.deadline_at.is_(None), C.cursor_value.is_(None), C.stalled_runs == 0), 1),
    "a comparison": (select(C.id).where(C.deadline_at < NOW), None),
    "an order": (select(C.id).order_by(C.deadline_at, C.completed_iterations.desc()), 1),
    "a group": (select(func.count(C.id)).group_by(C.stalled_runs), 1),
    "an alias": (select(step_executions.alias("e").c.stalled_runs), 0),
    "an alias of the class": (select(ALIAS.stalled_runs).where(ALIAS.deadline_at.is_(None)), 0),
    "a subquery": (select(INNER.c.stalled_runs).where(INNER.c.cursor_value.is_(None)), 0),
    "a join": (select(C.id).outerjoin(INNER, INNER.c.continues_from_id == C.id).where(INNER.c.id.is_(None)), 1),
    "an existence": (select(C.id).where(~select(INNER.c.id).where(INNER.c.signal_id == C.id).exists()), 1),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_can_name_it(session: Session, name: str) -> None:
    statement, expected = EXPRESSIONS[name]

    assert session.execute(statement).scalar() == expected


def test_a_row_is_read_by_its_columns(session: Session) -> None:
    row = session.execute(select(step_executions)).one()

    assert (row.step_name, row.stalled_runs, row.deadline_at, row.updated_at) == ("a", 0, None, NOW)
    assert row._mapping[C.stalled_runs] == 0


def test_a_value_that_it_reads_as_is_not_written_and_another_is_refused(session: Session) -> None:
    connection = session.connection()

    assert storable(connection, step_executions, {"step_name": "b", "stalled_runs": 0, "signal_id": None}) == {
        "step_name": "b"
    }
    with pytest.raises(MigrationMissing, match=r"'geneva_step_executions\.stalled_runs'.*flask db upgrade"):
        storable(connection, step_executions, {"step_name": "b", "stalled_runs": 1, "signal_id": None})


def test_a_statement_that_was_read_without_it_reads_it_once_it_is_there(engine: Engine, session: Session) -> None:
    # TST-18: statements are compiled once and kept, but not these.
    statement = select(C.stalled_runs)
    assert session.execute(statement).scalar_one() == 0
    session.close()
    with engine.begin() as connection:
        for name in later_columns_of(step_executions):
            rename(connection, f"without_{name}", name)
        connection.execute(text("UPDATE geneva_step_executions SET stalled_runs = 7"))

    assert session.execute(statement).scalar_one() == 7
    assert known_lacking(engine.dialect) == frozenset()


def test_an_engine_of_its_own_knows_by_itself(engine: Engine, session: Session) -> None:
    other = create_engine(engine.url)
    listen(other)
    try:
        with Session(other) as session_of_other:
            assert session_of_other.get_one(StepExecution, 1).stalled_runs == 0
    finally:
        other.dispose()
