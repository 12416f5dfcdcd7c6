"""The database connections of a process that forks: none is open at a fork, and none is shared after it."""

from __future__ import annotations

from collections.abc import Iterator

from flask import Flask
from sqlalchemy import Engine


def forget_connections(app: Flask) -> None:
    """In a child: leave the parent's sockets alone. One that two processes speak on is ruined for both."""
    for engine in _engines(app):
        engine.dispose(close=False)


def close_connections(app: Flask) -> None:
    """Say goodbye to the databases, so that no fork inherits a connection and no server wonders about a lost one."""
    for engine in _engines(app):
        engine.dispose()


def _engines(app: Flask) -> Iterator[Engine]:
    """The engines of every bind."""
    with app.app_context():
        yield from app.extensions["geneva"].db.engines.values()
