"""``migrations/``, the shop's own Flask-Migrate folder, with the extension's revisions installed in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from flask import Flask
from flask_migrate import Migrate, downgrade, upgrade
from sqlalchemy import inspect

from flask_geneva.migrations.installer import VERSIONS
from sample_app import MIGRATIONS, create_app
from sample_app.extensions import db


@pytest.fixture
def blank_app(tmp_path: Path) -> Iterator[Flask]:
    app = create_app(SQLALCHEMY_DATABASE_URI=f"sqlite:///{tmp_path / 'shop.db'}", GENEVA_ENQUEUE=False)
    with app.app_context():
        yield app
        db.session.remove()
        db.engine.dispose()


def test_the_revisions_make_exactly_the_tables_of_the_models(blank_app: Flask) -> None:
    upgrade()

    with db.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, db.metadata) == []
        assert {"geneva_workflows", "geneva_step_executions", "geneva_signals"} <= set(
            inspect(connection).get_table_names()
        )


def test_the_revisions_can_be_taken_back(blank_app: Flask) -> None:
    upgrade()

    downgrade(revision="base")

    assert inspect(db.engine).get_table_names() == ["alembic_version"]


def test_there_is_one_head(blank_app: Flask) -> None:
    migrate: Migrate = blank_app.extensions["migrate"].migrate
    script = ScriptDirectory.from_config(migrate.get_config(str(MIGRATIONS)))

    assert len(script.get_heads()) == 1


def test_the_revisions_of_the_library_are_there_as_it_ships_them() -> None:
    installed = {path.name: path.read_text() for path in (MIGRATIONS / "versions").glob("geneva_*.py")}

    assert installed.keys() == {path.name for path in VERSIONS.glob("geneva_*.py")}
    for name, text in installed.items():
        shipped = (VERSIONS / name).read_text()
        assert body(text) == body(shipped), f"{name} is out of date: remove it and run 'flask geneva install'"


def body(revision: str) -> str:
    """A revision without its links to the one before it."""
    return re.sub(r"^(Revises:|down_revision =).*$", "", revision, flags=re.MULTILINE)
