"""What the commands print: aligned lines for people, JSON with stable keys and times in UTC for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from typing import Any

import click


def print_json(value: Any) -> None:
    """Print a value as JSON; a dataclass is an object, a moment is ISO 8601, a duration is seconds."""
    click.echo(json.dumps(value, default=_plain, indent=2))


def print_table(rows: Iterable[Sequence[str]]) -> None:
    """Print rows with their columns aligned; the last column may be of any length."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def printable(text: str) -> str:
    """Make control characters visible: what is stored may come from outside, and a terminal would obey them."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def first_line(text: str | None) -> str:
    """Return the first line that has something on it."""
    lines = (text or "").strip().splitlines()
    return lines[0] if lines else ""


def moment(value: datetime | None) -> str:
    """Write a moment to the second, in UTC."""
    return "" if value is None else value.strftime("%Y-%m-%d %H:%M:%S")


def hero(hero_type: str | None, hero_id: str | None) -> str:
    """Name a hero."""
    return "" if hero_type is None else f"{hero_type}:{hero_id}"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
