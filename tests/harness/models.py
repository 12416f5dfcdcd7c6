"""The application's own tables: heroes of every kind of key, and the ledger in which steps leave their mark."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import DateTime, ForeignKey, String, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    """The base of the models of the tests."""


db = SQLAlchemy(model_class=Base)

if TYPE_CHECKING:
    Model = Base
else:
    Model = db.Model


class Customer(Model):
    """A hero with an integer key."""

    __tablename__ = "customers"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200), default="Ada")
    email: Mapped[str | None] = mapped_column(String(200))
    orders: Mapped[list[Order]] = relationship(back_populates="customer")


class Order(Model):
    """A hero with an integer key and something to change."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int | None] = mapped_column(ForeignKey("customers.id"))
    customer: Mapped[Customer | None] = relationship(back_populates="orders")
    state: Mapped[str] = mapped_column(String(50), default="placed")
    amount: Mapped[int] = mapped_column(default=0)
    withdrawn: Mapped[bool] = mapped_column(default=False)
    reviewed: Mapped[bool] = mapped_column(default=False)


class UUIDHero(Model):
    """A hero whose key is a UUID."""

    __tablename__ = "uuid_heroes"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)


class StrHero(Model):
    """A hero whose key is text, and may hold any character."""

    __tablename__ = "str_heroes"

    code: Mapped[str] = mapped_column(String(100), primary_key=True)


class CompositeHero(Model):
    """A hero whose key is two columns."""

    __tablename__ = "composite_heroes"

    region: Mapped[str] = mapped_column(String(20), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class LedgerEntry(Model):
    """One mark of one attempt at a step, written through ``db.session``: there once if the step ran exactly once."""

    __tablename__ = "ledger_entries"

    id: Mapped[int] = mapped_column(primary_key=True)
    hero: Mapped[str | None] = mapped_column(String(200))
    workflow_id: Mapped[int] = mapped_column(index=True)
    execution_id: Mapped[int]
    step: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime] = mapped_column(DateTime, default=lambda: datetime.now(UTC).replace(tzinfo=None))


def write_down(workflow: Any, mark: str | None = None) -> None:
    """Append to the ledger, as the step that runs (or under another mark); the engine commits it with the step."""
    execution = workflow.current_execution
    hero = workflow.hero
    db.session.add(
        LedgerEntry(
            hero=None if hero is None else f"{type(hero).__name__} {hero.__mapper__.primary_key_from_instance(hero)}",
            workflow_id=workflow.id,
            execution_id=execution.id,
            step=mark or execution.step_name,
        )
    )


def written_down(workflow_id: int) -> list[str]:
    """The committed marks of a workflow, in the order in which they were written."""
    with db.engine.connect() as connection:
        marks = select(LedgerEntry.step).where(LedgerEntry.workflow_id == workflow_id).order_by(LedgerEntry.id)
        return list(connection.scalars(marks))
