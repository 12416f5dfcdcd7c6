"""Throwaway Flask projects with a ``migrations`` folder, and what the databases that they make look like."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import Result
from flask import Flask
from flask_migrate import Migrate
from flask_migrate.cli import db as db_commands
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Connection, Engine, MetaData, String, inspect, text
from sqlalchemy.orm import Mapped, mapped_column

from flask_geneva import Geneva
from flask_geneva.migrations.installer import VERSIONS, install_revisions

TABLES = ("geneva_workflows", "geneva_step_executions", "geneva_signals", "geneva_webhook_deliveries")

# A convention that would rename every constraint and index that leaves its naming to it.
CONVENTION = {
    "ix": "index_%(table_name)s_%(constraint_name)s",
    "uq": "unique_%(table_name)s_%(constraint_name)s",
    "fk": "foreign_%(table_name)s_%(column_0_name)s",
    "pk": "primary_%(table_name)s",
}


@dataclass(frozen=True, kw_only=True)
class Project:
    """A Flask application with one model, Flask-Migrate and Flask-Geneva."""

    app: Flask
    db: SQLAlchemy
    geneva: Geneva
    migrations: Path

    def try_flask_db(self, *arguments: str) -> Result:
        """Run a ``flask db`` command."""
        # The env.py of a "migrate" leaves a hook behind that spoils a "check" in the same process.
        self.app.extensions["migrate"].configure_args.pop("process_revision_directives", None)
        with warnings.catch_warnings(), logging_kept():
            # The env.py that Flask-Migrate writes still asks Flask-SQLAlchemy in the old way first.
            warnings.filterwarnings("ignore", "'get_engine' is deprecated", DeprecationWarning)
            return self.app.test_cli_runner().invoke(db_commands, arguments)

    def flask_db(self, *arguments: str) -> str:
        """Run a ``flask db`` command that has to succeed, and return what it printed."""
        result = self.try_flask_db(*arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    def install(self, source: Path = VERSIONS) -> list[Path]:
        return install_revisions(self.migrations, source)

    @property
    def revision_files(self) -> list[str]:
        return sorted(path.name for path in (self.migrations / "versions").glob("*.py"))

    @property
    def engine(self) -> Engine:
        with self.app.app_context():
            return self.db.engine

    def description(self) -> dict[str, list[str]]:
        """What the library's tables look like in the database, in its own words."""
        with self.engine.connect() as connection:
            return {table: described(connection, table) for table in TABLES}

    def has_tables(self) -> bool:
        return set(TABLES) <= set(inspect(self.engine).get_table_names())


def make_project(
    folder: Path,
    database_url: str,
    *,
    convention: bool = False,
    schema: str | None = None,
    config: dict[str, Any] | None = None,
    **options: Any,
) -> Project:
    """Write a project; ``schema`` is that of the application's own tables, ``options`` are those of Flask-Migrate."""
    app = Flask("project", root_path=str(folder))
    app.config.from_mapping(SQLALCHEMY_DATABASE_URI=database_url, GENEVA_ENQUEUE=False, TESTING=True)
    app.config.from_mapping(config or {})
    db = SQLAlchemy(metadata=MetaData(naming_convention=CONVENTION if convention else None, schema=schema))
    _declare_customer(db)
    db.init_app(app)
    Migrate(app, db, directory=str(folder / "migrations"), **options)
    geneva = Geneva(app, db)
    return Project(app=app, db=db, geneva=geneva, migrations=folder / "migrations")


def _declare_customer(db: SQLAlchemy) -> None:
    class Customer(db.Model):  # type: ignore[name-defined,misc]
        __tablename__ = "customers"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str] = mapped_column(String(50))


@contextlib.contextmanager
def logging_kept() -> Iterator[None]:
    """Undo what the ``env.py`` of a project does to logging: it turns off every logger that it does not know."""
    loggers = [each for each in logging.Logger.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    before = [(each, each.disabled, each.level, list(each.handlers)) for each in [logging.getLogger(), *loggers]]
    try:
        yield
    finally:
        for logger, disabled, level, handlers in before:
            logger.disabled, logger.handlers = disabled, handlers
            logger.setLevel(level)


def described(connection: Connection, table: str) -> list[str]:
    """The definition of a table and its indexes, line by line; the order of lines does not count."""
    describe = {"sqlite": _on_sqlite, "postgresql": _on_postgresql}.get(connection.dialect.name, _on_mysql)
    return sorted(line.strip().rstrip(",") for line in describe(connection, table))


def _on_sqlite(connection: Connection, table: str) -> list[str]:
    found = connection.scalars(text("SELECT sql FROM sqlite_master WHERE tbl_name = :table"), {"table": table})
    # A column that was added stands behind the last constraint, on the same line.
    return [part for sql in found if sql for part in re.split(r",\s*(?![^(]*\))", sql.rstrip().removesuffix(")"))]


def _on_postgresql(connection: Connection, table: str) -> list[str]:
    columns = connection.scalars(
        text(
            "SELECT attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull FROM pg_attribute "
            "WHERE attrelid = cast(:table AS regclass) AND attnum > 0"
        ),
        {"table": table},
    )
    indexes = connection.scalars(text("SELECT indexdef FROM pg_indexes WHERE tablename = :table"), {"table": table})
    constraints = connection.scalars(
        text(
            "SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE conrelid = cast(:table AS regclass)"
        ),
        {"table": table},
    )
    return [*columns, *indexes, *constraints]


def _on_mysql(connection: Connection, table: str) -> list[str]:
    definition: str = connection.execute(text(f"SHOW CREATE TABLE {table}")).one()[1]
    return definition.splitlines()
