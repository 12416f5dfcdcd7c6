"""Runs Alembic on the shop's database; what ``flask db`` calls."""

from __future__ import annotations

from typing import Any

from alembic import context
from flask import current_app

database = current_app.extensions["migrate"].db
options: dict[str, Any] = current_app.extensions["migrate"].configure_args


def run_offline() -> None:
    """Write the SQL down instead of sending it."""
    address = database.engine.url.render_as_string(hide_password=False)
    context.configure(url=address, target_metadata=database.metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()


def run_online() -> None:
    """Migrate the database."""
    with database.engine.connect() as connection:
        context.configure(connection=connection, target_metadata=database.metadata, **options)
        with context.begin_transaction():
            context.run_migrations()


if context.is_offline_mode():
    run_offline()
else:
    run_online()
