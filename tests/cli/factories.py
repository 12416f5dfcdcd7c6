"""Factories of applications for ``flask --app``: one that works, and some that cannot be loaded."""

from __future__ import annotations

from flask import Flask

from flask_geneva import Geneva
from tests.harness.models import db


def in_memory() -> Flask:
    """Its database is as empty as when it was made."""
    app = Flask("in_memory")
    app.config.from_mapping(SQLALCHEMY_DATABASE_URI="sqlite://", GENEVA_ENQUEUE=False)
    db.init_app(app)
    geneva = Geneva(app, db)
    with app.app_context():
        geneva.create_all()
    return app


def misconfigured() -> Flask:
    """Its config has a wrong value."""
    app = Flask("misconfigured")
    app.config.from_mapping(SQLALCHEMY_DATABASE_URI="sqlite://", GENEVA_RUN_AHEAD="soon")
    db.init_app(app)
    Geneva(app, db)
    return app


def without_geneva() -> Flask:
    """Nobody called init_app."""
    return Flask("without_geneva")


def misspelled() -> Flask:
    """Its factory has a mistake."""
    return Flask(1 / 0)  # type: ignore[arg-type]
