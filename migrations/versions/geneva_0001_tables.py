"""Create the tables of Flask-Geneva: workflows and step executions

Revision ID: geneva_0001
Revises: 0001

"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from flask_geneva.migrations import ddl

revision = "geneva_0001"
down_revision = "0001"
branch_labels = None
depends_on = None

ACTIVE = "state IN ('scheduled', 'in_progress')"
MYSQL_ACTIVE = "state IN (_utf8mb4'scheduled', _utf8mb4'in_progress')"
ONGOING = "state IN ('ready', 'performing', 'paused') AND NOT allow_multiple"
MYSQL_ONGOING = "state IN (_utf8mb4'ready', _utf8mb4'performing', _utf8mb4'paused') AND allow_multiple = 0"
ENDS = ("finished_at", "completed_at", "failed_at", "canceled_at", "skipped_at")


def upgrade(engine_name: str = "") -> None:
    """Create what is not there yet; ``engine_name`` is given by projects with several databases."""
    if engine_name:
        return
    if not ddl.has_table("geneva_workflows"):
        _create_workflows()
    if not ddl.has_table("geneva_step_executions"):
        _create_step_executions()


def downgrade(engine_name: str = "") -> None:
    """Drop the tables with all their rows."""
    if engine_name:
        return
    op.drop_table("geneva_step_executions")
    op.drop_table("geneva_workflows")


def _create_workflows() -> None:
    op.create_table(
        "geneva_workflows",
        sa.Column("id", ddl.key(), autoincrement=True, nullable=False),
        sa.Column("type", ddl.exact_string(), nullable=False),
        sa.Column("hero_type", ddl.exact_string()),
        sa.Column("hero_id", ddl.exact_string()),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("current_step_name", ddl.exact_string()),
        sa.Column("next_step_name", ddl.exact_string()),
        sa.Column("pending_request", sa.String(32)),
        sa.Column("allow_multiple", sa.Boolean(), nullable=False),
        sa.Column("started_at", ddl.moment()),
        sa.Column("transitioned_at", ddl.moment()),
        sa.Column("created_at", ddl.moment(), nullable=False),
        sa.Column("updated_at", ddl.moment(), nullable=False),
        sa.Column("metadata", ddl.json_document()),
        *ddl.slot("one_ongoing_slot", mysql_where=MYSQL_ONGOING),
        *ddl.slot("one_ongoing_heroless_slot", mysql_where=f"{MYSQL_ONGOING} AND hero_id IS NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_geneva_workflows")),
        **ddl.TABLE_OPTIONS,
    )
    _index_workflows()


def _index_workflows() -> None:
    table = "geneva_workflows"
    op.create_index(op.f("ix_geneva_workflows_hero"), table, ["hero_id", "hero_type"])
    op.create_index(op.f("ix_geneva_workflows_type_state"), table, ["type", "state"])
    op.create_index(op.f("ix_geneva_workflows_state_transitioned_at"), table, ["state", "transitioned_at"])
    op.create_index(op.f("ix_geneva_workflows_created_at"), table, ["created_at"])
    ddl.create_unique_index_where(
        "uq_geneva_workflows_one_ongoing",
        table,
        ["type", "hero_type", "hero_id"],
        where=ONGOING,
        slot="one_ongoing_slot",
    )
    ddl.create_unique_index_where(
        "uq_geneva_workflows_one_ongoing_heroless",
        table,
        ["type"],
        where=f"{ONGOING} AND hero_id IS NULL",
        slot="one_ongoing_heroless_slot",
    )


def _create_step_executions() -> None:
    op.create_table(
        "geneva_step_executions",
        sa.Column("id", ddl.key(), autoincrement=True, nullable=False),
        sa.Column("workflow_id", ddl.key(), nullable=False),
        sa.Column("step_name", ddl.exact_string(), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("outcome", sa.String(32)),
        sa.Column("scheduled_for", ddl.moment(), nullable=False),
        *(sa.Column(name, ddl.moment()) for name in ("started_at", *ENDS)),
        sa.Column("error_class_name", sa.String(255)),
        sa.Column("error_message", ddl.long_text()),
        sa.Column("error_backtrace", ddl.long_text()),
        sa.Column("job_id", sa.String(64)),
        sa.Column("error_reattempts", sa.Integer(), nullable=False),
        sa.Column("death_reattempts", sa.Integer(), nullable=False),
        sa.Column("created_at", ddl.moment(), nullable=False),
        sa.Column("updated_at", ddl.moment(), nullable=False),
        sa.Column("metadata", ddl.json_document()),
        *ddl.slot("one_active_slot", mysql_where=MYSQL_ACTIVE),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_geneva_step_executions")),
        *ddl.belongs_to_workflow("fk_geneva_step_executions_workflow_id"),
        **ddl.TABLE_OPTIONS,
    )
    _index_step_executions()


def _index_step_executions() -> None:
    for columns in (["workflow_id", "state"], ["state", "scheduled_for"]):
        name = op.f(f"ix_geneva_step_executions_{'_'.join(columns)}")
        op.create_index(name, "geneva_step_executions", columns)
    ddl.create_unique_index_where(
        "uq_geneva_step_executions_one_active",
        "geneva_step_executions",
        ["workflow_id"],
        where=ACTIVE,
        slot="one_active_slot",
    )
