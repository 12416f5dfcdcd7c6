"""The three tables, and how they are made known to an application's metadata."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import (
    Boolean,
    Column,
    Computed,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    text,
)
from sqlalchemy.sql.elements import conv

from flask_geneva.records.base import Base, Key, LongText, StateColumn, UTCDateTime
from flask_geneva.records.dialects import MYSQL_DIALECTS
from flask_geneva.records.json_column import JSONColumn
from flask_geneva.records.later_columns import LaterColumn
from flask_geneva.states import Outcome, PendingRequest, SignalState, StepState, WorkflowState

# Strings compare by case, accents and trailing spaces on every database. On MySQL and MariaDB that takes a binary
# collation that does not pad; it has another name on each, and each executes the comment that is meant for it.
EXACT_COLLATION = "/*!80017 utf8mb4_0900_bin */ /*M!100202 utf8mb4_nopad_bin */"

# For DDL alone, and given to the copies that are for such a database: SQLAlchemy imports each one that is named here.
_OPTIONS: dict[str, str | bool] = {
    # Without it SQLite gives the number of a deleted row away again.
    "sqlite_autoincrement": True,
}
_MYSQL_OPTIONS: dict[str, str | bool] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": EXACT_COLLATION,
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": EXACT_COLLATION,
}

workflows = Table(
    "geneva_workflows",
    Base.metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("type", String(255), nullable=False),
    Column("hero_type", String(255)),
    Column("hero_id", String(255)),
    Column("state", StateColumn(WorkflowState), nullable=False),
    Column("current_step_name", String(255)),
    Column("next_step_name", String(255)),
    Column("pending_request", StateColumn(PendingRequest)),
    Column("allow_multiple", Boolean, nullable=False, default=False),
    Column("started_at", UTCDateTime),
    Column("transitioned_at", UTCDateTime),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime, nullable=False),
    Column("metadata", JSONColumn(none_as_null=True), key="details"),
    # The id first: a hero is looked for by its id alone, too.
    Index(conv("ix_geneva_workflows_hero"), "hero_id", "hero_type"),
    Index(conv("ix_geneva_workflows_type_state"), "type", "state"),
    Index(conv("ix_geneva_workflows_state_transitioned_at"), "state", "transitioned_at"),
    Index(conv("ix_geneva_workflows_created_at"), "created_at"),
)

step_executions = Table(
    "geneva_step_executions",
    Base.metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("workflow_id", Key, nullable=False),
    Column("step_name", String(255), nullable=False),
    Column("state", StateColumn(StepState), nullable=False),
    Column("outcome", StateColumn(Outcome)),
    Column("scheduled_for", UTCDateTime, nullable=False),
    Column("started_at", UTCDateTime),
    Column("finished_at", UTCDateTime),
    Column("completed_at", UTCDateTime),
    Column("failed_at", UTCDateTime),
    Column("canceled_at", UTCDateTime),
    Column("skipped_at", UTCDateTime),
    LaterColumn("waiting_since", UTCDateTime),
    LaterColumn("deadline_at", UTCDateTime),
    Column("error_class_name", String(255)),
    Column("error_message", LongText),
    Column("error_backtrace", LongText),
    Column("job_id", String(64)),
    LaterColumn("continues_from_id", Key),
    LaterColumn("signal_id", Key),
    LaterColumn("cursor_value", JSONColumn(none_as_null=True)),
    LaterColumn("completed_iterations", Integer, nullable=False, server_default=text("0")),
    LaterColumn("iteration_total", Key),
    # By the whole chain of executions, for people: where checkpoints are few they do not say how far the step is.
    LaterColumn("items_done", Key),
    Column("error_reattempts", Integer, nullable=False, default=0),
    Column("death_reattempts", Integer, nullable=False, default=0),
    LaterColumn("stalled_runs", Integer, nullable=False, server_default=text("0")),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime, nullable=False),
    Column("metadata", JSONColumn(none_as_null=True), key="details"),
    Index(conv("ix_geneva_step_executions_workflow_id_state"), "workflow_id", "state"),
    Index(conv("ix_geneva_step_executions_state_scheduled_for"), "state", "scheduled_for"),
    Index(conv("ix_geneva_step_executions_signal_id"), "signal_id"),
    Index(conv("ix_geneva_step_executions_deadline_at"), "deadline_at"),
)

_E = step_executions.c
# What each of the later revisions has brought.
RESUMABLE_COLUMNS = (
    _E.continues_from_id,
    _E.cursor_value,
    _E.completed_iterations,
    _E.iteration_total,
    _E.items_done,
    _E.stalled_runs,
)
SIGNAL_COLUMNS = (_E.signal_id, _E.waiting_since, _E.deadline_at)

signals = Table(
    "geneva_signals",
    Base.metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("workflow_id", Key, nullable=False),
    Column("name", String(255), nullable=False),
    Column("idempotency_key", String(255)),
    Column("state", StateColumn(SignalState), nullable=False),
    Column("payload", JSONColumn(none_as_null=False), nullable=False),
    Column("claimed", Key, nullable=False, default=0),
    Column("consumed", Key, nullable=False, default=0),
    Column("claimed_at", UTCDateTime),
    Column("consumed_at", UTCDateTime),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime, nullable=False),
    Index(conv("uq_geneva_signals_delivery"), "workflow_id", "name", "idempotency_key", unique=True),
    Index(conv("ix_geneva_signals_workflow_id_state"), "workflow_id", "state"),
)

TABLES = (workflows, step_executions, signals)


@dataclass(frozen=True, kw_only=True)
class UniqueWhere:
    """A unique index that holds within a condition; the conditions are SQL texts, since DDL takes no parameters."""

    table: Table
    name: str
    columns: tuple[str, ...]
    where: str
    mysql_where: str


# MySQL shows the texts of a generated column with their character set; written so, the comparison of schemas is silent.
ACTIVE = "state IN ('scheduled', 'in_progress')"
MYSQL_ACTIVE = "state IN (_utf8mb4'scheduled', _utf8mb4'in_progress')"
ONGOING = "state IN ('ready', 'performing', 'paused') AND NOT allow_multiple"
MYSQL_ONGOING = "state IN (_utf8mb4'ready', _utf8mb4'performing', _utf8mb4'paused') AND allow_multiple = 0"

UNIQUE_WHERE = (
    UniqueWhere(
        table=step_executions,
        name="one_active",
        columns=("workflow_id",),
        where=ACTIVE,
        mysql_where=MYSQL_ACTIVE,
    ),
    UniqueWhere(
        table=workflows,
        name="one_ongoing",
        columns=("type", "hero_type", "hero_id"),
        where=ONGOING,
        mysql_where=MYSQL_ONGOING,
    ),
    # NULLs are distinct in a unique index, so workflows without a hero need one of their own.
    UniqueWhere(
        table=workflows,
        name="one_ongoing_heroless",
        columns=("type",),
        where=f"{ONGOING} AND hero_id IS NULL",
        mysql_where=f"{MYSQL_ONGOING} AND hero_id IS NULL",
    ),
)


def register_tables(metadata: MetaData, dialect_name: str) -> list[Table]:
    """Make the tables known to an application's metadata, in the form that its database needs.

    The copies are for DDL (``create_all``, Alembic); statements are made of the tables of this module. Copies that were
    made for another kind of database are replaced, for a metadata that serves two applications.
    """
    registered = [metadata.tables[table.name] for table in TABLES if table.name in metadata.tables]
    if len(registered) == len(TABLES) and is_made_for(registered[0], dialect_name):
        return registered
    for table in reversed(registered):
        metadata.remove(table)
    return [_copy(table, metadata, dialect_name) for table in TABLES]


def is_made_for(copy: Table, dialect_name: str) -> bool:
    """Whether the copy has the form that this kind of database needs; PostgreSQL and SQLite have the same."""
    return bool(copy.info.get("mysql") == (dialect_name in MYSQL_DIALECTS))


def copy_for_ddl(table: Table, metadata: MetaData, dialect_name: str) -> Table:
    """Copy one of the library's tables to an application's metadata, in types that Alembic can write."""
    with _no_default_schema(metadata):
        copy = table.to_metadata(metadata)
    copy.info["mysql"] = dialect_name in MYSQL_DIALECTS
    copy.dialect_kwargs.update(_MYSQL_OPTIONS if copy.info["mysql"] else _OPTIONS)
    for column in copy.columns:
        if hasattr(column.type, "ddl_type"):
            column.type = column.type.ddl_type(dialect_name)
    return copy


def _copy(table: Table, metadata: MetaData, dialect_name: str) -> Table:
    copy = copy_for_ddl(table, metadata, dialect_name)
    mysql = dialect_name in MYSQL_DIALECTS
    if table is not workflows and not mysql:
        _add_foreign_key(copy)
    for unique in UNIQUE_WHERE:
        if unique.table is table:
            add = _add_slot if mysql else _add_partial_index
            add(copy, unique)
    return copy


def _add_foreign_key(table: Table) -> None:
    """Let rows go with their workflow, where the database can hold that without a lock on the workflow's row.

    On MySQL an insert of a signal would share-lock the row of its workflow, and two workflows whose steps signal each
    other would wait for one another; there the library alone deletes what belongs to a workflow.
    """
    name = conv(f"fk_{table.name}_workflow_id")
    workflow_id = table.metadata.tables[workflows.name].c.id
    table.append_constraint(ForeignKeyConstraint(["workflow_id"], [workflow_id], name=name, ondelete="CASCADE"))


@contextmanager
def _no_default_schema(metadata: MetaData) -> Iterator[None]:
    """Keep our tables out of the schema that the application's tables are in: our statements name none."""
    schema, metadata.schema = metadata.schema, None
    try:
        yield
    finally:
        metadata.schema = schema


def _add_partial_index(table: Table, unique: UniqueWhere) -> None:
    where = text(unique.where)
    columns = (table.c[column] for column in unique.columns)
    Index(conv(f"uq_{table.name}_{unique.name}"), *columns, unique=True, postgresql_where=where, sqlite_where=where)


def _add_slot(table: Table, unique: UniqueWhere) -> None:
    """MySQL and MariaDB have no partial index: a generated column is 1 inside the condition and NULL outside."""
    within = Computed(f"CASE WHEN {unique.mysql_where} THEN 1 END", persisted=True)
    slot = Column(f"{unique.name}_slot", SmallInteger, within)
    table.append_column(slot)
    Index(conv(f"uq_{table.name}_{unique.name}"), *(table.c[column] for column in unique.columns), slot, unique=True)
