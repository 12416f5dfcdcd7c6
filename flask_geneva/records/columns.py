"""Workflow classes have one table in common; what one of them needs beyond its columns belongs to its hero."""

from __future__ import annotations

from sqlalchemy import Column
from sqlalchemy.orm import MappedColumn

from flask_geneva.errors import StepConfigurationError
from flask_geneva.records.base import Base

_OF_SQLALCHEMY = ("__tablename__", "__table__", "__table_args__", "__mapper_args__")


def refuse_columns(cls: type) -> None:
    """Refuse a class that declares a table or a column: SQLAlchemy would add it to the table of all workflows.

    :raises StepConfigurationError: with the attribute and what to do instead.
    """
    for each in cls.__mro__:
        if issubclass(each, Base):
            continue
        _refuse(cls, each)
    _refuse(cls, cls)


def _refuse(cls: type, declaring: type) -> None:
    for name, value in vars(declaring).items():
        if name in _OF_SQLALCHEMY or isinstance(value, Column | MappedColumn):
            raise StepConfigurationError(
                f"{cls.__name__}: '{name}' is for a table of its own, and all workflows have one in common. Keep the "
                f"value on the hero, or on a model that refers to the workflow."
            )
