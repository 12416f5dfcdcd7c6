"""The declarative base of the library's tables and the column types that behave alike on every database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, LargeBinary, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.types import TypeDecorator, TypeEngine

from flask_geneva.records.dialects import with_mysql_variant

NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The parent of the library's mapped classes; separate from the application's models."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)
    # Workflow classes may annotate attributes of their own; columns are only what the tables have.
    __allow_unmapped__ = True


# SQLite numbers rows by itself only where the key is called INTEGER.
Key = BigInteger().with_variant(Integer(), "sqlite")

# Each type below tells with ``ddl_type`` what it is in a kind of database, in SQLAlchemy's own types: a revision that
# Alembic generates can name those, while it would not import ours.


class LongText(TypeDecorator[str]):
    """A text that may be longer than the 64 kB of MySQL's TEXT."""

    impl = Text
    cache_ok = True

    def ddl_type(self, dialect_name: str) -> TypeEngine[Any]:
        return with_mysql_variant(Text(), dialect_name, "MEDIUMTEXT")


class LongBinary(TypeDecorator[bytes]):
    """Bytes that may be more than the 64 kB of MySQL's BLOB."""

    impl = LargeBinary
    cache_ok = True

    def ddl_type(self, dialect_name: str) -> TypeEngine[Any]:
        return with_mysql_variant(LargeBinary(), dialect_name, "LONGBLOB")


class UTCDateTime(TypeDecorator[datetime]):
    """A moment with microseconds: stored in UTC, read as aware UTC. A naive value is refused."""

    impl = DateTime
    cache_ok = True

    def ddl_type(self, dialect_name: str) -> TypeEngine[Any]:
        return with_mysql_variant(DateTime(timezone=True), dialect_name, "DATETIME", fsp=6)

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return self.ddl_type(dialect.name).dialect_impl(dialect)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"A naive datetime cannot be stored: {value!r}. Give it a time zone, UTC for example.")
        in_utc = value.astimezone(UTC)
        return in_utc if dialect.name == "postgresql" else in_utc.replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


Member = TypeVar("Member", bound=StrEnum)


class StateColumn(TypeDecorator[Member], Generic[Member]):
    """A member of a StrEnum, stored as its text."""

    impl = String
    cache_ok = True

    def __init__(self, members: type[Member]) -> None:
        super().__init__(32)
        self.members = members

    def ddl_type(self, dialect_name: str) -> TypeEngine[Any]:
        return String(32)

    def process_bind_param(self, value: Member | str | None, dialect: Dialect) -> str | None:
        return None if value is None else str(self.members(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Member | None:
        return None if value is None else self.members(value)


MODELS_KEY = "geneva_models"


def models_known_to(session: Session | None) -> Callable[[str], type | None] | None:
    """Return the search among the application's models that the extension gave to its sessions."""
    return None if session is None else session.info.get(MODELS_KEY)
