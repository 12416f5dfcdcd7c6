"""The group ``flask geneva``: whatever goes wrong below it is one line on stderr and an exit status, no traceback."""

from __future__ import annotations

import errno
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pkgutil import resolve_name
from typing import Any, TypeVar, cast

import click
from flask import current_app
from flask.cli import AppGroup, with_appcontext
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from flask_geneva.config import without_password
from flask_geneva.errors import GenevaError, MigrationMissing
from flask_geneva.insights.schema import missing_from

logger = logging.getLogger(__name__)

Command = TypeVar("Command", bound=Callable[..., Any])


class GenevaGroup(AppGroup):
    """A group of commands that ends every error in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with one_line_errors():
            return super().invoke(ctx)


class OneLine(click.ClickException):
    """An error that ends the command."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class Misused(OneLine):
    """The command was called wrongly."""

    exit_code = 2


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn whatever is raised within into one line."""
    try:
        yield
    except (click.exceptions.Exit, click.Abort, OneLine):
        raise
    except click.UsageError as error:
        raise _usage(error) from error
    except click.ClickException as error:
        raise OneLine(error.format_message()) from error
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        raise OneLine(text_of(error)) from error
    except Exception as error:
        raise OneLine(text_of(error)) from error


def in_application(command: Command) -> Command:
    """Run a command in the context of the application, which is still there when an error is put into words."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        with one_line_errors():
            return command(*arguments, **options)

    return cast("Command", with_appcontext(run))


def text_of(error: BaseException) -> str:
    """Say what went wrong and what to do, as far as that is known."""
    if isinstance(error, MigrationMissing) and error.__cause__ is not None:
        # The statement that failed names the first thing that is missing; here is time to name all.
        return _of_database(error.__cause__)
    if isinstance(error, GenevaError):
        return str(error)
    if isinstance(error, DBAPIError):
        return _of_database(error.orig)
    # Imported by name: only what runs a command may need it, and every process imports this module.
    if isinstance(error, resolve_name("redis.exceptions:RedisError")):
        return _of_redis(error)
    logger.debug("The command failed.", exc_info=error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def _usage(error: click.UsageError) -> click.ClickException:
    # Without arguments click shows the help, which is no error to shorten.
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        return error
    hint = f" Try '{error.ctx.command_path} --help'." if error.ctx is not None else ""
    return Misused(f"{error.format_message()}{hint}")


def _of_database(error: BaseException | None) -> str:
    reason = _first_line(error)
    if not current_app or "geneva" not in current_app.extensions:
        return f"The database answered with an error: {reason}"
    db = current_app.extensions["geneva"].db
    db.session.rollback()
    url = db.engine.url.render_as_string(hide_password=True)
    try:
        with db.engine.connect() as connection:
            missing = missing_from(connection, db.metadata)
    except SQLAlchemyError:
        return f"Cannot reach the database at {url}: {reason}. Start it, or correct SQLALCHEMY_DATABASE_URI."
    if missing:
        return str(MigrationMissing(_enumerated(missing)))
    return f"The database at {url} answered with an error: {reason}"


def _enumerated(names: list[str]) -> str:
    rest = len(names) - 3
    return ", ".join(names[:3]) + (f" and {rest} more" if rest > 0 else "")


def _of_redis(error: BaseException) -> str:
    where = ""
    with suppress(RuntimeError, KeyError):
        where = f" at {without_password(current_app.extensions['geneva'].runtime.settings.redis_url)}"
    return f"Cannot reach Redis{where}: {_first_line(error)}. Start it, or correct GENEVA_REDIS_URL."


def _first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")
