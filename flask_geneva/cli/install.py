"""``flask geneva install``: the library's revisions into the application's migrations."""

from __future__ import annotations

from pathlib import Path

import click
from flask import current_app

from flask_geneva.cli.group import in_application
from flask_geneva.migrations.installer import install_revisions


def migrations_directory() -> Path:
    """Return the folder that Flask-Migrate was set up with, or the one that it would take."""
    migrate = current_app.extensions.get("migrate")
    return Path(getattr(migrate, "directory", None) or "migrations")


@click.command("install")
@click.option("--directory", "-d", type=click.Path(path_type=Path), help="The migrations folder, if it is another.")
@in_application
def install(directory: Path | None) -> None:
    """Copy the library's Alembic revisions into the application's migrations, chained to its head.

    Run it again after an upgrade of the library: it adds only what is missing.
    """
    written = install_revisions(directory or migrations_directory())
    for file in written:
        click.echo(f"Wrote {file}")
    click.echo("Next: flask db upgrade" if written else "Nothing to install: every revision is there already.")
