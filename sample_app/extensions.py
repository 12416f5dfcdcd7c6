"""The extensions of the shop, made once and bound to an application in the factory."""

from __future__ import annotations

from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import DeclarativeBase

from flask_geneva import Geneva


class Base(DeclarativeBase):
    """The base of the shop's models."""


db = SQLAlchemy(model_class=Base)
migrate = Migrate()
geneva = Geneva()
