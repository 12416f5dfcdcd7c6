"""Tables against the database: what a migration has yet to bring."""

from __future__ import annotations

from sqlalchemy import Connection, MetaData, inspect

TABLE_PREFIX = "geneva_"


def missing_from(connection: Connection, metadata: MetaData) -> list[str]:
    """Name the tables and columns of the library that an application's metadata has and its database has not."""
    inspector = inspect(connection)
    stored = set(inspector.get_table_names())
    missing = []
    for name, table in sorted(metadata.tables.items()):
        if not name.startswith(TABLE_PREFIX):
            continue
        if name not in stored:
            missing.append(f"the table '{name}'")
            continue
        columns = {column["name"] for column in inspector.get_columns(name)}
        missing += [f"the column '{name}.{column.name}'" for column in table.columns if column.name not in columns]
    return missing
