"""The three tables, and how they are made known to an application's metadata."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Computed,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    false,
    text,
)

from flask_geneva.records.base import MYSQL_DIALECTS, Base, ExactString, Key, LongText, StateColumn, UTCDateTime
from flask_geneva.records.json_column import JSONColumn
from flask_geneva.states import Outcome, PendingRequest, SignalState, StepState, WorkflowState

# The conditions of the two unique indexes that promise 1 rests on; written as SQL, since DDL takes no parameters.
ONE_ACTIVE = "state IN ('scheduled', 'in_progress')"
ONE_ONGOING = "state IN ('ready', 'performing', 'paused') AND allow_multiple = {false}"

workflows = Table(
    "geneva_workflows",
    Base.metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("type", ExactString(), nullable=False),
    Column("hero_type", ExactString()),
    Column("hero_id", ExactString()),
    Column("state", StateColumn(WorkflowState), nullable=False),
    Column("current_step_name", ExactString()),
    Column("next_step_name", ExactString()),
    Column("pending_request", StateColumn(PendingRequest)),
    Column("allow_multiple", Boolean, nullable=False, default=False),
    Column("started_at", UTCDateTime),
    Column("transitioned_at", UTCDateTime),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime, nullable=False),
    Column("metadata", JSONColumn(none_as_null=True), key="details"),
    Index("ix_geneva_workflows_hero", "hero_type", "hero_id"),
    Index("ix_geneva_workflows_type_state", "type", "state"),
    Index("ix_geneva_workflows_state_transitioned_at", "state", "transitioned_at"),
    mysql_engine="InnoDB",
    mysql_charset="utf8mb4",
    mariadb_engine="InnoDB",
    mariadb_charset="utf8mb4",
)

step_executions = Table(
    "geneva_step_executions",
    Base.metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("workflow_id", Key, ForeignKey(workflows.c.id, ondelete="CASCADE"), nullable=False),
    Column("step_name", ExactString(), nullable=False),
    Column("state", StateColumn(StepState), nullable=False),
    Column("outcome", StateColumn(Outcome)),
    Column("scheduled_for", UTCDateTime, nullable=False),
    Column("started_at", UTCDateTime),
    Column("finished_at", UTCDateTime),
    Column("completed_at", UTCDateTime),
    Column("failed_at", UTCDateTime),
    Column("canceled_at", UTCDateTime),
    Column("skipped_at", UTCDateTime),
    Column("waiting_since", UTCDateTime),
    Column("deadline_at", UTCDateTime),
    Column("error_class_name", String(255)),
    Column("error_message", LongText),
    Column("error_backtrace", LongText),
    Column("job_id", String(64)),
    Column("continues_from_id", Key),
    Column("signal_id", Key),
    Column("cursor_value", JSONColumn(none_as_null=True)),
    Column("completed_iterations", Integer, nullable=False, default=0),
    Column("iteration_total", Key),
    Column("error_reattempts", Integer, nullable=False, default=0),
    Column("death_reattempts", Integer, nullable=False, default=0),
    Column("stalled_runs", Integer, nullable=False, default=0),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime, nullable=False),
    Column("metadata", JSONColumn(none_as_null=True), key="details"),
    Index("ix_geneva_step_executions_workflow_id_state", "workflow_id", "state"),
    Index("ix_geneva_step_executions_state_scheduled_for", "state", "scheduled_for"),
    Index("ix_geneva_step_executions_signal_id", "signal_id"),
    Index("ix_geneva_step_executions_deadline_at", "deadline_at"),
    mysql_engine="InnoDB",
    mysql_charset="utf8mb4",
    mariadb_engine="InnoDB",
    mariadb_charset="utf8mb4",
)

signals = Table(
    "geneva_signals",
    Base.metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("workflow_id", Key, ForeignKey(workflows.c.id, ondelete="CASCADE"), nullable=False),
    Column("name", ExactString(), nullable=False),
    Column("idempotency_key", ExactString()),
    Column("state", StateColumn(SignalState), nullable=False),
    Column("payload", JSONColumn(none_as_null=False), nullable=False),
    Column("claimed", Key, nullable=False, default=0),
    Column("consumed", Key, nullable=False, default=0),
    Column("claimed_at", UTCDateTime),
    Column("consumed_at", UTCDateTime),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime, nullable=False),
    Index("uq_geneva_signals_delivery", "workflow_id", "name", "idempotency_key", unique=True),
    Index("ix_geneva_signals_workflow_id_state", "workflow_id", "state"),
    mysql_engine="InnoDB",
    mysql_charset="utf8mb4",
    mariadb_engine="InnoDB",
    mariadb_charset="utf8mb4",
)

TABLES = (workflows, step_executions, signals)


def register_tables(metadata: MetaData, dialect_name: str) -> list[Table]:
    """Make the tables known to an application's metadata, in the form that its database needs; once per metadata.

    The copies are for DDL (``create_all``, Alembic); statements are made of the tables of this module.
    """
    copies = []
    for table in TABLES:
        if table.name not in metadata.tables:
            table.to_metadata(metadata)
            _add_unique_slots(metadata.tables[table.name], dialect_name)
        copies.append(metadata.tables[table.name])
    return copies


def _add_unique_slots(table: Table, dialect_name: str) -> None:
    mysql = dialect_name in MYSQL_DIALECTS
    if table.name == step_executions.name:
        add = _slot_column if mysql else _partial_index
        add(table, "one_active", ONE_ACTIVE, ["workflow_id"])
    elif table.name == workflows.name:
        add = _slot_column if mysql else _partial_index
        ongoing = ONE_ONGOING.format(false=str(false()) if dialect_name == "postgresql" else "0")
        add(table, "one_ongoing", ongoing, ["type", "hero_type", "hero_id"])
        # NULLs are distinct in a unique index, so workflows without a hero have a slot of their own.
        add(table, "one_ongoing_heroless", f"{ongoing} AND hero_id IS NULL", ["type"])


def _partial_index(table: Table, name: str, condition: str, columns: list[str]) -> None:
    where = text(condition)
    Index(
        f"uq_{table.name}_{name}",
        *(table.c[column] for column in columns),
        unique=True,
        postgresql_where=where,
        sqlite_where=where,
    )


def _slot_column(table: Table, name: str, condition: str, columns: list[str]) -> None:
    """MySQL and MariaDB have no partial index: a generated column is 1 inside the condition and NULL outside."""
    slot = Column(f"{name}_slot", SmallInteger, Computed(f"CASE WHEN {condition} THEN 1 END", persisted=True))
    table.append_column(slot)
    Index(f"uq_{table.name}_{name}", *(table.c[column] for column in columns), slot, unique=True)
