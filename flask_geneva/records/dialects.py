"""The types and statements that one kind of database has alone.

SQLAlchemy's package of each takes as long to import as half of the library, and an application uses one kind of
database: so a package is imported where its database is met.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from sqlalchemy.types import TypeEngine

MYSQL_DIALECTS = ("mysql", "mariadb")
_HAVE_ON_CONFLICT = ("postgresql", "sqlite")


def with_mysql_variant(type_: TypeEngine[Any], dialect_name: str, name: str, **options: Any) -> TypeEngine[Any]:
    """Give the type MySQL's own form, where the tables are for MySQL or MariaDB."""
    if dialect_name not in MYSQL_DIALECTS:
        return type_
    variant = resolve_name(f"sqlalchemy.dialects.mysql:{name}")(**options)
    return type_.with_variant(variant, *MYSQL_DIALECTS)


def jsonb(**options: Any) -> Any:
    """Return PostgreSQL's type of that name."""
    return resolve_name("sqlalchemy.dialects.postgresql:JSONB")(**options)


def insert_with_conflicts(dialect_name: str) -> Any | None:
    """Return the ``insert`` that can be told not to mind a conflict; None where the database has none."""
    if dialect_name not in _HAVE_ON_CONFLICT:
        return None
    return resolve_name(f"sqlalchemy.dialects.{dialect_name}:insert")
