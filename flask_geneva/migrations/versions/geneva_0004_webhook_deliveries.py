"""Create the log of webhook deliveries of Flask-Geneva

Revision ID: geneva_0004
Revises: geneva_0003

"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from flask_geneva.migrations import ddl

revision = "geneva_0004"
down_revision = "geneva_0003"
branch_labels = None
depends_on = None

TABLE = "geneva_webhook_deliveries"


def upgrade(engine_name: str = "") -> None:
    """Create what is not there yet; ``engine_name`` is given by projects with several databases."""
    if engine_name or ddl.has_table(TABLE):
        return
    op.create_table(
        TABLE,
        sa.Column("id", ddl.key(), autoincrement=True, nullable=False),
        sa.Column("source", sa.String(255), nullable=False),
        sa.Column("event_id", sa.String(255)),
        sa.Column("event_type", sa.String(255)),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("http_status", sa.SmallInteger(), nullable=False),
        sa.Column("reason", sa.String(500)),
        sa.Column("workflow_id", ddl.key()),
        sa.Column("signal_id", ddl.key()),
        sa.Column("signal_name", sa.String(255)),
        sa.Column("signals", ddl.json_document()),
        sa.Column("sent_at", ddl.moment()),
        sa.Column("received_at", ddl.moment(), nullable=False),
        sa.Column("body_hash", sa.String(64)),
        sa.Column("body_size", sa.Integer()),
        sa.Column("body", sa.LargeBinary().with_variant(mysql.LONGBLOB(), *ddl.MYSQL_DIALECTS)),
        sa.Column("headers", ddl.json_document()),
        sa.Column("replay_of_id", ddl.key()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_geneva_webhook_deliveries")),
        **ddl.TABLE_OPTIONS,
    )
    for columns in (["received_at"], ["source", "received_at"], ["outcome", "received_at"]):
        op.create_index(op.f(f"ix_{TABLE}_{'_'.join(columns)}"), TABLE, columns)


def downgrade(engine_name: str = "") -> None:
    """Drop the table with all its rows."""
    if engine_name:
        return
    op.drop_table(TABLE)
