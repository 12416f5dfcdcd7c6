"""Add to the step executions of Flask-Geneva what resumable steps need

Revision ID: geneva_0002
Revises: geneva_0001

"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from flask_geneva.migrations import ddl

revision = "geneva_0002"
down_revision = "geneva_0001"
branch_labels = None
depends_on = None

TABLE = "geneva_step_executions"


def upgrade(engine_name: str = "") -> None:
    """Add what is not there yet; ``engine_name`` is given by projects with several databases."""
    if engine_name:
        return
    for column in _columns():
        ddl.add_column(TABLE, column)


def downgrade(engine_name: str = "") -> None:
    """Drop the columns; a step that was suspended begins anew."""
    if engine_name:
        return
    for column in reversed(_columns()):
        op.drop_column(TABLE, column.name)


def _columns() -> list[sa.Column[object]]:
    return [
        sa.Column("continues_from_id", ddl.key()),
        sa.Column("cursor_value", ddl.json_document()),
        sa.Column("completed_iterations", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("iteration_total", ddl.key()),
        sa.Column("items_done", ddl.key()),
        sa.Column("stalled_runs", sa.Integer(), nullable=False, server_default=sa.text("0")),
    ]
