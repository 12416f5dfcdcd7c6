"""What the Python blocks of the pages in ``docs/`` may take for granted: an application with a shop's models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_geneva import Geneva

# With RQ they would be imported at a page's first job; what pages say of a moment later allows for no such pause.
from flask_geneva.worker import liveness, redis_urls  # noqa: F401


class Base(DeclarativeBase):
    """The base of the models."""


db = SQLAlchemy(model_class=Base)
geneva = Geneva()

if TYPE_CHECKING:
    Model = Base
else:
    Model = db.Model


class Order(Model):
    """The hero of the pages."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    amount_cents: Mapped[int] = mapped_column(default=0)
    paid_cents: Mapped[int] = mapped_column(default=0)
    withdrawn: Mapped[bool] = mapped_column(default=False)
    reviewed: Mapped[bool] = mapped_column(default=False)


class Recipient(Model):
    """Who gets mail about an order."""

    __tablename__ = "recipients"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    email: Mapped[str] = mapped_column(String(200))


sent: list[str] = []


def send_mail(recipient: object) -> None:
    """Stands for the mail server."""
    sent.append(str(recipient))


def create_app() -> Flask:
    """The application."""
    app = Flask(__name__)
    app.config.from_mapping(SQLALCHEMY_DATABASE_URI="sqlite://", GENEVA_ENQUEUE=False)
    db.init_app(app)
    geneva.init_app(app, db)
    return app
