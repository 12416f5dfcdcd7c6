"""``flask geneva install``: the library's revisions into the application's migrations."""

from __future__ import annotations

from pathlib import Path

import click
from alembic.config import Config
from flask import current_app

from flask_geneva.cli.group import in_application
from flask_geneva.migrations.installer import SETTINGS, install_revisions


def migrations_directory() -> Path:
    """Return the folder of Flask-Migrate, or of Alembic where it is used by itself."""
    migrate = current_app.extensions.get("migrate")
    if migrate is None and Path(SETTINGS).is_file():
        return Path(Config(SETTINGS).get_main_option("script_location") or "migrations")
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
    upgrade = "flask db upgrade" if "migrate" in current_app.extensions else "alembic upgrade head"
    click.echo(f"Next: {upgrade}" if written else "Nothing to install: every revision is there already.")
