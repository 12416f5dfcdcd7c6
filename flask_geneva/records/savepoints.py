"""Savepoints that tell of a deadlock by its own error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session

_NO_SUCH_SAVEPOINT = 1305


@contextmanager
def savepoint(session: Session) -> Iterator[None]:
    """Do what is within behind a savepoint, which an error rolls back.

    InnoDB ends a deadlock by undoing one whole transaction, savepoints included. The rollback to the savepoint is then
    refused, and that error would hide from the caller that it was a deadlock and that a second try will do.
    """
    try:
        with session.begin_nested():
            yield
    except OperationalError as error:
        cause = error.__context__
        if _code(error) == _NO_SUCH_SAVEPOINT and isinstance(cause, DBAPIError):
            raise cause from None
        raise


def _code(error: DBAPIError) -> object:
    """The number that MySQL and MariaDB give an error, whatever the driver."""
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments else None
