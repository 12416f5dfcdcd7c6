from __future__ import annotations

from importlib import import_module

from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import MetaData, create_engine, inspect
from sqlalchemy.dialects import mysql

from flask_geneva.webhooks.delivery_log import register_table

revision = import_module("flask_geneva.migrations.versions.geneva_0004_webhook_deliveries")


def described(connection):
    """What the database says of the table."""
    inspector = inspect(connection)
    columns = [{name: str(value) for name, value in column.items()} for column in inspector.get_columns(revision.TABLE)]
    indexes = sorted(inspector.get_indexes(revision.TABLE), key=lambda index: index["name"])
    return columns, inspector.get_pk_constraint(revision.TABLE), indexes


def test_the_revision_makes_the_table_that_the_model_describes(blank_database_url):
    engine = create_engine(blank_database_url)
    table = register_table(MetaData(), engine.dialect.name)

    with engine.begin() as connection:
        table.create(connection)
        wanted = described(connection)
        table.drop(connection)
        with Operations.context(MigrationContext.configure(connection)):
            revision.upgrade()
            revision.upgrade()
            assert described(connection) == wanted
            revision.downgrade()
        assert not inspect(connection).has_table(revision.TABLE)
    engine.dispose()


def test_the_table_stays_out_of_the_schema_of_the_application():
    metadata = MetaData(schema="shop")

    table = register_table(metadata, "postgresql")

    assert table.schema is None
    assert register_table(metadata, "sqlite") is table
    assert metadata.schema == "shop"


def test_a_metadata_that_serves_two_kinds_of_database_is_right_for_the_last_one():
    metadata = MetaData()
    register_table(metadata, "sqlite")

    table = register_table(metadata, "mysql")

    assert metadata.tables[table.name] is table
    assert str(table.c.body.type.compile(mysql.dialect())) == "LONGBLOB"
    assert str(table.c.received_at.type.compile(mysql.dialect())) == "DATETIME(6)"
