"""The tables are made known to an application's metadata in the form that its database needs."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, Table, create_engine, create_mock_engine

from flask_geneva.records.tables import TABLES, register_tables

NAMES = [table.name for table in TABLES]


def definitions(metadata: MetaData, dialect_name: str) -> str:
    """What ``create_all`` says on a database of this kind."""
    spoken: list[str] = []

    def speak(statement: object, *_arguments: object, **_options: object) -> None:
        spoken.append(str(statement.compile(dialect=engine.dialect)))  # type: ignore[attr-defined]

    driver = {"postgresql": "psycopg", "mysql": "pymysql", "mariadb": "pymysql", "sqlite": "pysqlite"}[dialect_name]
    engine = create_mock_engine(f"{dialect_name}+{driver}://", speak)
    metadata.create_all(engine, checkfirst=False)  # type: ignore[arg-type]
    return "\n".join(spoken)


def test_registering_again_changes_nothing() -> None:
    metadata = MetaData()

    first = register_tables(metadata, "sqlite")

    assert register_tables(metadata, "postgresql") == first
    assert list(metadata.tables) == NAMES


@pytest.mark.parametrize("dialect_name", ["sqlite", "postgresql"])
def test_uniqueness_within_a_condition_is_a_partial_index_where_there_are_such(dialect_name: str) -> None:
    metadata = MetaData()
    register_tables(metadata, dialect_name)

    text = definitions(metadata, dialect_name)

    assert "(workflow_id) WHERE state IN ('scheduled', 'in_progress')" in text
    assert "GENERATED" not in text


@pytest.mark.parametrize("developed_on", ["sqlite", "postgresql"])
def test_what_is_developed_on_sqlite_has_binary_json_on_postgresql(developed_on: str) -> None:
    metadata = MetaData()
    register_tables(metadata, developed_on)

    assert "payload JSONB NOT NULL" in definitions(metadata, "postgresql")


@pytest.mark.parametrize("dialect_name", ["mysql", "mariadb"])
def test_uniqueness_within_a_condition_is_a_generated_column_elsewhere(dialect_name: str) -> None:
    # DBS-06
    metadata = MetaData()
    register_tables(metadata, dialect_name)

    text = definitions(metadata, dialect_name)

    assert "one_active_slot SMALLINT GENERATED ALWAYS AS (CASE WHEN state IN" in text
    assert "(workflow_id, one_active_slot)" in text
    assert "error_message MEDIUMTEXT" in text
    assert "created_at DATETIME(6) NOT NULL" in text
    assert text.count("COLLATE /*!80017 utf8mb4_0900_bin */ /*M!100202 utf8mb4_nopad_bin */") == len(NAMES)


def test_a_metadata_that_serves_two_kinds_of_database_is_right_for_the_last_one() -> None:
    metadata = MetaData()

    register_tables(metadata, "sqlite")
    register_tables(metadata, "mysql")
    assert "GENERATED" in definitions(metadata, "mysql")

    register_tables(metadata, "postgresql")
    assert "GENERATED" not in definitions(metadata, "postgresql")


def test_sqlite_never_gives_a_number_away_twice_whoever_was_first() -> None:
    metadata = MetaData()

    register_tables(metadata, "postgresql")
    register_tables(metadata, "sqlite")

    assert definitions(metadata, "sqlite").count("AUTOINCREMENT") == len(NAMES)


def test_the_tables_stay_out_of_the_schema_of_the_application() -> None:
    metadata = MetaData(schema="shop")
    Table("orders", metadata, Column("id", Integer, primary_key=True))
    register_tables(metadata, "postgresql")

    text = definitions(metadata, "postgresql")

    assert "CREATE TABLE shop.orders" in text
    assert "CREATE TABLE geneva_signals" in text
    assert "REFERENCES geneva_workflows (id) ON DELETE CASCADE" in text
    assert metadata.schema == "shop"


def test_a_naming_convention_of_the_application_renames_nothing() -> None:
    metadata = MetaData(naming_convention={"ix": "i_%(constraint_name)s", "fk": "f_%(table_name)s", "pk": "p"})
    register_tables(metadata, "postgresql")

    text = definitions(metadata, "postgresql")

    assert "CONSTRAINT pk_geneva_signals PRIMARY KEY" in text
    assert "CONSTRAINT fk_geneva_signals_workflow_id FOREIGN KEY" in text
    assert "CREATE INDEX ix_geneva_workflows_hero" in text


def test_drop_all_drops_them() -> None:
    engine: Engine = create_engine("sqlite://")
    metadata = MetaData()
    register_tables(metadata, "sqlite")

    metadata.create_all(engine)
    metadata.drop_all(engine)

    with engine.connect() as connection:
        assert engine.dialect.get_table_names(connection) in ([], ["sqlite_sequence"])
    engine.dispose()
