"""Installed, generated or created: the tables come out alike, hold their promises, and Alembic has nothing to add."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Inspector, delete, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

from flask_geneva.records.tables import signals, step_executions, workflows
from tests.migrations.projects import TABLES, Project

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
STAMPS = {"created_at": NOW, "updated_at": NOW}
STRICT = {"convention": True, "render_as_batch": True, "compare_type": True, "compare_server_default": True}


def add_workflow(connection: Connection, **columns: Any) -> int:
    values = {"type": "Signup", "state": "ready", "hero_type": "User", "hero_id": "1", "allow_multiple": False}
    result = connection.execute(insert(workflows), {**values, **STAMPS, **columns})
    return int(result.inserted_primary_key[0])


def add_execution(connection: Connection, workflow_id: int, state: str) -> None:
    counters = {name: 0 for name in step_executions.c.keys() if name.endswith(("reattempts", "runs", "iterations"))}  # noqa: SIM118
    values = {"workflow_id": workflow_id, "state": state, "step_name": "greet", "scheduled_for": NOW}
    connection.execute(insert(step_executions), {**values, **counters, **STAMPS})


def add_signal(connection: Connection, workflow_id: int, name: str, key: str | None) -> None:
    values = {"workflow_id": workflow_id, "name": name, "idempotency_key": key, "payload": None}
    connection.execute(insert(signals), {**values, "state": "pending", "claimed": 0, "consumed": 0, **STAMPS})


def refused(connection: Connection, add: Callable[..., Any], *arguments: Any, **columns: Any) -> bool:
    try:
        with connection.begin_nested():
            add(connection, *arguments, **columns)
    except IntegrityError:
        return True
    return False


@pytest.mark.parametrize("options", [{}, STRICT], ids=["plain", "strict"])
def test_after_install_and_upgrade_there_is_nothing_to_migrate(
    new_project: Callable[..., Project], blank_database_url: str, options: dict[str, Any]
) -> None:
    # INS-01
    project = new_project(blank_database_url, **options)
    project.flask_db("init")
    project.flask_db("migrate", "-m", "the application's own tables")
    project.flask_db("upgrade")
    project.install()

    project.flask_db("upgrade")

    project.flask_db("check")
    before = project.revision_files
    project.flask_db("migrate")
    assert project.revision_files == before


@pytest.mark.databases("postgresql")
def test_the_tables_stay_out_of_the_schema_of_the_applications_tables(
    new_project: Callable[..., Project], blank_database_url: str
) -> None:
    project = new_project(blank_database_url, schema="shop", include_schemas=True, **STRICT)
    with project.engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA shop"))
    project.flask_db("init")
    project.install()
    project.flask_db("upgrade")
    project.flask_db("migrate", "-m", "the application's own tables")

    project.flask_db("upgrade")

    project.flask_db("check")
    assert project.has_tables()
    assert inspect(project.engine).get_table_names(schema="shop") == ["customers"]


@pytest.mark.databases("postgresql")
def test_the_tables_are_in_the_schema_that_the_search_path_names(
    new_project: Callable[..., Project], blank_database_url: str
) -> None:
    plain = new_project(blank_database_url)
    with plain.engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA flows"))
    options = {"connect_args": {"options": "-c search_path=flows,public"}}
    project = new_project(blank_database_url, config={"SQLALCHEMY_ENGINE_OPTIONS": options}, **STRICT)
    project.flask_db("init")
    project.install()

    project.flask_db("upgrade")

    assert set(TABLES) <= set(inspect(plain.engine).get_table_names(schema="flows"))
    assert not plain.has_tables()
    with project.engine.begin() as connection:
        add_workflow(connection)
    project.flask_db("migrate", "-m", "the application's own tables")
    project.flask_db("upgrade")
    project.flask_db("check")


def test_of_several_databases_only_the_main_one_gets_the_tables(
    new_project: Callable[..., Project], blank_database_url: str, tmp_path: Path
) -> None:
    binds = {"other": f"sqlite:///{tmp_path / 'other.db'}"}
    project = new_project(blank_database_url, config={"SQLALCHEMY_BINDS": binds}, **STRICT)
    project.flask_db("init", "--multidb")
    project.install()
    project.flask_db("upgrade")
    project.flask_db("migrate", "-m", "the application's own tables")

    project.flask_db("upgrade")

    project.flask_db("check")
    before = project.revision_files
    project.flask_db("migrate")
    assert project.revision_files == before
    assert project.has_tables()
    with project.app.app_context():
        assert not [name for name in inspect(project.db.engines["other"]).get_table_names() if "geneva" in name]
    project.flask_db("downgrade", "base")
    assert not project.has_tables()


@pytest.mark.parametrize("options", [{}, STRICT], ids=["plain", "strict"])
def test_tables_are_alike_whether_installed_generated_or_created(
    new_project: Callable[..., Project], blank_database_url: str, options: dict[str, Any]
) -> None:
    # INS-10, INS-11, DBS-06
    installed = new_project(blank_database_url, **options)
    installed.flask_db("init")
    installed.install()
    installed.flask_db("upgrade")
    wanted = installed.description()
    installed.flask_db("downgrade", "base")

    generated = new_project(blank_database_url, **options)
    generated.flask_db("init")
    generated.flask_db("migrate")
    generated.flask_db("upgrade")
    generated.flask_db("check")
    assert generated.description() == wanted

    with generated.app.app_context():
        generated.db.drop_all()
        generated.geneva.create_all()
    assert generated.description() == wanted


def test_every_constraint_and_index_has_a_name_of_ours(
    new_project: Callable[..., Project], blank_database_url: str
) -> None:
    project = new_project(blank_database_url, **STRICT)
    project.flask_db("init")
    project.install()
    project.flask_db("upgrade")

    inspector = inspect(project.engine)
    names = [name for table in TABLES for name in names_in(inspector, table)]

    assert len(names) > 15
    assert [name for name in names if not re.match("(pk|fk|uq|ix)_geneva_", name)] == []


def test_the_revisions_bring_what_heroes_signals_and_cursors_need(project: Project) -> None:
    # INS-03, INS-09
    project.install()
    project.flask_db("upgrade")

    inspector = inspect(project.engine)
    columns = {table: {each["name"]: each for each in inspector.get_columns(table)} for table in TABLES}

    assert {"started_at", "metadata"} <= set(columns["geneva_workflows"])
    assert columns["geneva_workflows"]["hero_id"]["nullable"]
    kept_of_an_end = {"finished_at", "error_class_name", "metadata"}
    of_a_cursor = {"cursor_value", "continues_from_id", "completed_iterations"}
    of_a_signal = {"signal_id", "waiting_since"}
    assert kept_of_an_end | of_a_cursor | of_a_signal <= set(columns["geneva_step_executions"])
    assert {"name", "idempotency_key", "payload", "claimed", "consumed"} <= set(columns["geneva_signals"])


def names_in(inspector: Inspector, table: str) -> list[str]:
    found: list[Any] = [*inspector.get_foreign_keys(table), *inspector.get_unique_constraints(table)]
    found += inspector.get_indexes(table)
    if inspector.dialect.name == "postgresql":
        # MySQL's primary keys have no names, and SQLite's none where they number rows by themselves; MariaDB has a
        # check of each JSON column, which is called like the column.
        found += [inspector.get_pk_constraint(table), *inspector.get_check_constraints(table)]
    return [str(each["name"]) for each in found]


def test_tables_that_are_there_already_are_taken_as_they_are(project: Project) -> None:
    # INS-04
    with project.app.app_context():
        project.db.create_all()
    project.install()

    project.flask_db("upgrade")

    project.flask_db("check")


def test_a_downgrade_drops_the_tables_and_their_rows_and_an_upgrade_makes_them_again(project: Project) -> None:
    project.install()
    project.flask_db("upgrade")
    with project.engine.begin() as connection:
        workflow = add_workflow(connection)
        add_execution(connection, workflow, "scheduled")
        add_signal(connection, workflow, "paid", None)

    project.flask_db("downgrade", "base")
    assert not set(inspect(project.engine).get_table_names()) - {"alembic_version"}

    project.flask_db("upgrade")
    with project.engine.connect() as connection:
        assert connection.execute(select(workflows)).all() == []


@pytest.fixture
def connection(project: Project) -> Any:
    project.install()
    project.flask_db("upgrade")
    with project.engine.begin() as connection:
        yield connection


def test_one_active_execution_a_workflow_is_a_promise_of_the_database(connection: Connection) -> None:
    workflow = add_workflow(connection)
    add_execution(connection, workflow, "in_progress")

    for state in ("waiting", "completed", "completed", "skipped"):
        add_execution(connection, workflow, state)

    assert refused(connection, add_execution, workflow, "scheduled")
    assert refused(connection, add_execution, workflow, "in_progress")


def test_one_ongoing_workflow_a_class_and_hero_is_a_promise_of_the_database(connection: Connection) -> None:
    add_workflow(connection, state="paused")

    add_workflow(connection, type="Offboarding")
    add_workflow(connection, hero_id="2")
    add_workflow(connection, state="finished")
    add_workflow(connection, allow_multiple=True)

    assert refused(connection, add_workflow)
    assert refused(connection, add_workflow, state="performing")


def test_one_ongoing_workflow_a_class_without_hero_is_a_promise_of_the_database(connection: Connection) -> None:
    heroless = {"hero_type": None, "hero_id": None}
    add_workflow(connection, **heroless)

    add_workflow(connection, **heroless, state="canceled")
    add_workflow(connection, **heroless, type="Offboarding")

    assert refused(connection, add_workflow, **heroless)


def test_a_signal_is_stored_once_for_a_key_and_keys_compare_exactly(connection: Connection) -> None:
    # DBS-05
    workflow = add_workflow(connection)
    add_signal(connection, workflow, "paid", "a")

    for name, key in [("paid", "A"), ("paid", "a "), ("paid", "á"), ("paid ", "a"), ("Paid", "a"), ("paid", None)]:
        add_signal(connection, workflow, name, key)
    add_signal(connection, workflow, "paid", None)

    assert refused(connection, add_signal, workflow, "paid", "a")
    assert len(connection.execute(select(signals).where(signals.c.name == "paid")).all()) == 6


def test_moments_keep_their_microseconds(connection: Connection) -> None:
    add_workflow(connection)

    assert connection.scalar(select(workflows.c.created_at)) == NOW


def test_long_texts_are_not_cut(connection: Connection) -> None:
    workflow = add_workflow(connection)
    add_execution(connection, workflow, "failed")

    connection.execute(step_executions.update().values(error_backtrace="ü" * 100_000))

    assert connection.scalar(select(step_executions.c.error_backtrace)) == "ü" * 100_000


@pytest.mark.databases("postgresql")
def test_rows_go_with_their_workflow(connection: Connection) -> None:
    # DBS-07
    workflow = add_workflow(connection)
    add_execution(connection, workflow, "scheduled")
    add_signal(connection, workflow, "paid", None)

    connection.execute(delete(workflows))

    assert connection.execute(select(step_executions)).all() == []
    assert connection.execute(select(signals)).all() == []


def test_the_number_of_a_deleted_row_is_not_given_away_again(connection: Connection) -> None:
    first = add_workflow(connection)
    connection.execute(delete(workflows))

    assert add_workflow(connection) > first


def test_the_upgrade_can_be_written_as_a_script(project: Project) -> None:
    project.install()

    script = project.flask_db("upgrade", "--sql")

    assert script.count("CREATE TABLE geneva_") == 4
    assert "uq_geneva_step_executions_one_active" in script
    assert not project.has_tables()
