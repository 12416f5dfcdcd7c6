"""Arguments and options that several commands share, and how they become a selection of workflows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, TypeVar

import click
from sqlalchemy.orm import Session

from flask_geneva.cli.group import OneLine
from flask_geneva.engine.runtime import Runtime
from flask_geneva.insights.listing import (
    LARGEST_ID,
    Selection,
    known_class_names,
    known_step_names,
    of_class,
    page_of,
)
from flask_geneva.states import WorkflowState

Command = TypeVar("Command", bound=Callable[..., Any])

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def workflow_id(value: str) -> int:
    """Read the id of a workflow, with or without a leading ``#``."""
    return _row_id(value, "workflow's")


def delivery_id(value: str) -> int:
    """Read the id of a webhook delivery, likewise."""
    return _row_id(value, "webhook delivery's")


def _row_id(value: str, whose: str) -> int:
    text = str(value).removeprefix("#")
    if not re.fullmatch("[0-9]+", text):
        raise click.BadParameter(f"'{value}' is no {whose} id, which is a whole number.")
    # What no database can store is no row either, and 0 is the id that none of them has.
    return int(text) if len(text) < 20 and int(text) <= LARGEST_ID else 0


def age(value: str) -> timedelta:
    """Read a duration such as ``90s``, ``15m``, ``2h``, ``3d`` or ``1w``."""
    found = re.fullmatch(r"([0-9]{1,5})([smhdw])", str(value).strip())
    if found is None:
        raise click.BadParameter(f"'{value}' is no age. Write a number and a unit, such as 90s, 15m, 2h, 3d or 1w.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The options that select workflows, as they were given."""

    class_name: str | None
    state: tuple[str, ...]
    step_name: str | None
    hero: str | None
    older_than: timedelta | None
    newer_than: timedelta | None

    @property
    def any_given(self) -> bool:
        """Whether any of them was given."""
        return any(value not in (None, ()) for value in vars(self).values())


def filter_options(command: Command) -> Command:
    """Add the options that select workflows; the command takes them as keywords, for :class:`Filters`."""
    options = (
        click.option("--class", "class_name", metavar="CLASS", help="Only of this class."),
        click.option(
            "--state",
            type=click.Choice([state.value for state in WorkflowState]),
            multiple=True,
            help="Only in this state (repeatable).",
        ),
        click.option("--step", "step_name", metavar="STEP", help="Only where this step is next or in hand."),
        click.option("--hero", metavar="TYPE:ID", help="Only of this hero; an id alone will do."),
        click.option("--older-than", type=age, metavar="AGE", help="Only created longer ago, such as 3d."),
        click.option("--newer-than", type=age, metavar="AGE", help="Only created since, such as 2h."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def as_json_option(command: Command) -> Command:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def selection_of(filters: Filters, session: Session, runtime: Runtime) -> Selection:
    """Read the options; a class or a step that nobody knows is an error, not an empty list."""
    if filters.class_name is not None:
        check_class(filters.class_name, session, runtime)
    if filters.step_name is not None:
        _check_step(filters.step_name, filters.class_name, session, runtime)
    now = runtime.now()
    return Selection(
        **({} if filters.class_name is None else of_class(filters.class_name, runtime)),
        states=tuple(WorkflowState(state) for state in filters.state),
        step_name=filters.step_name,
        hero=filters.hero,
        created_before=None if filters.older_than is None else now - filters.older_than,
        created_after=None if filters.newer_than is None else now - filters.newer_than,
    )


def check_class(name: str, session: Session, runtime: Runtime) -> None:
    """Refuse the name of a class that neither the code nor any row has."""
    if runtime.class_named(name) is not None or page_of(session, Selection(class_name=name), limit=1):
        return
    known = known_class_names(session, runtime)
    raise OneLine(f"There is no workflow class '{name}', neither in the code nor in rows.{_advice(name, known)}")


def _check_step(name: str, class_name: str | None, session: Session, runtime: Runtime) -> None:
    known = known_step_names(session, runtime, class_name)
    if name not in known:
        owner = "any workflow class" if class_name is None else class_name
        raise OneLine(f"There is no step '{name}' in {owner}, and no workflow stands at one.{_advice(name, known)}")


def _advice(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f" Did you mean '{near[0]}'?"
    return f" There are: {', '.join(known)}." if known else ""
