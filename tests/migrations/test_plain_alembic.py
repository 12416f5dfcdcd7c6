"""A project that uses Alembic by itself, without Flask-Migrate."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import create_engine, inspect

from flask_geneva import Geneva
from tests.migrations.projects import TABLES, logging_kept

ENVIRONMENT = """
from alembic import context
from flask import current_app

db = current_app.extensions["sqlalchemy"]
with db.engine.connect() as connection:
    context.configure(connection=connection, target_metadata=db.metadata)
    with context.begin_transaction():
        context.run_migrations()
"""


@pytest.fixture
def app(blank_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flask]:
    """A project after ``alembic init alembic``, whose env.py runs in the application's context."""
    app = Flask("plain")
    app.config.from_mapping(SQLALCHEMY_DATABASE_URI=blank_database_url, GENEVA_ENQUEUE=False)
    db = SQLAlchemy(app)
    Geneva(app, db)
    monkeypatch.chdir(tmp_path)
    with logging_kept(), app.app_context():
        command.init(settings(), "alembic")
        Path("alembic", "env.py").write_text(ENVIRONMENT)
        yield app
        db.engine.dispose()


def settings() -> Config:
    return Config("alembic.ini", stdout=io.StringIO())


@pytest.mark.parametrize("arguments", [[], ["--directory", "alembic"]])
def test_the_revisions_go_into_its_folder_and_leave_nothing_to_generate(
    app: Flask, arguments: list[str], blank_database_url: str
) -> None:
    # INS-01, INS-02
    done = app.test_cli_runner().invoke(args=["geneva", "install", *arguments])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "Next: alembic upgrade head"
    assert "Nothing to install" in app.test_cli_runner().invoke(args=["geneva", "install", *arguments]).stdout

    command.upgrade(settings(), "head")
    command.check(settings())

    engine = create_engine(blank_database_url)
    assert set(TABLES) <= set(inspect(engine).get_table_names())
    command.downgrade(settings(), "base")
    assert not set(TABLES) & set(inspect(engine).get_table_names())
    engine.dispose()


def test_a_folder_that_is_none_of_alembics_is_one_line(app: Flask) -> None:
    done = app.test_cli_runner().invoke(args=["geneva", "install", "--directory", "versions"])

    assert done.exit_code == 1
    assert "or give the folder with --directory" in done.stderr
