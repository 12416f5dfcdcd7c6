"""Create the signals of Flask-Geneva, and add to its step executions what waits for them

Revision ID: geneva_0003
Revises: geneva_0002

"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from flask_geneva.migrations import ddl

revision = "geneva_0003"
down_revision = "geneva_0002"
branch_labels = None
depends_on = None

SIGNALS = "geneva_signals"
EXECUTIONS = "geneva_step_executions"


def upgrade(engine_name: str = "") -> None:
    """Create and add what is not there yet; ``engine_name`` is given by projects with several databases."""
    if engine_name:
        return
    for column in _columns():
        ddl.add_column(EXECUTIONS, column)
    for name in ("signal_id", "deadline_at"):
        ddl.create_index(f"ix_{EXECUTIONS}_{name}", EXECUTIONS, [name])
    if not ddl.has_table(SIGNALS):
        _create_signals()


def downgrade(engine_name: str = "") -> None:
    """Drop the signals, and what was waiting for them waits for nothing any more."""
    if engine_name:
        return
    op.drop_table(SIGNALS)
    for name in ("deadline_at", "signal_id"):
        op.drop_index(op.f(f"ix_{EXECUTIONS}_{name}"), EXECUTIONS)
    for column in reversed(_columns()):
        op.drop_column(EXECUTIONS, column.name)


def _columns() -> list[sa.Column[object]]:
    return [
        sa.Column("signal_id", ddl.key()),
        sa.Column("waiting_since", ddl.moment()),
        sa.Column("deadline_at", ddl.moment()),
    ]


def _create_signals() -> None:
    op.create_table(
        SIGNALS,
        sa.Column("id", ddl.key(), autoincrement=True, nullable=False),
        sa.Column("workflow_id", ddl.key(), nullable=False),
        sa.Column("name", ddl.exact_string(), nullable=False),
        sa.Column("idempotency_key", ddl.exact_string()),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("payload", ddl.json_document(), nullable=False),
        sa.Column("claimed", ddl.key(), nullable=False),
        sa.Column("consumed", ddl.key(), nullable=False),
        sa.Column("claimed_at", ddl.moment()),
        sa.Column("consumed_at", ddl.moment()),
        sa.Column("created_at", ddl.moment(), nullable=False),
        sa.Column("updated_at", ddl.moment(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_geneva_signals")),
        *ddl.belongs_to_workflow("fk_geneva_signals_workflow_id"),
        **ddl.TABLE_OPTIONS,
    )
    op.create_index(op.f("ix_geneva_signals_workflow_id_state"), SIGNALS, ["workflow_id", "state"])
    op.create_index(
        op.f("uq_geneva_signals_delivery"),
        SIGNALS,
        ["workflow_id", "name", "idempotency_key"],
        unique=True,
    )
