"""An application that is put together wrongly is told so at once, with the line that is missing."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import DeclarativeBase

from flask_geneva import Geneva, Workflow
from flask_geneva.engine.runtime import Runtime
from flask_geneva.errors import ConfigurationError
from tests.harness.apps import burst


class ExtensionBase(DeclarativeBase):
    """The base of the models of the applications below, which have none."""


def application(**config: Any) -> tuple[Flask, SQLAlchemy]:
    """An application with a database, and without the extension."""
    app, db = Flask("shop"), SQLAlchemy(model_class=ExtensionBase)
    app.config.from_mapping(config or {"SQLALCHEMY_DATABASE_URI": "sqlite://"})
    db.init_app(app)
    return app, db


def test_an_application_without_a_database_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'shop' has no Flask-SQLAlchemy. Call db\.init_app\(app\) before"):
        Geneva(Flask("shop"))


def test_a_database_of_no_application_is_refused() -> None:
    app, _ = application()

    with pytest.raises(ConfigurationError, match="another SQLAlchemy object than the one that 'shop' was set up with"):
        Geneva(app, SQLAlchemy(model_class=ExtensionBase))


def test_a_database_in_the_place_of_the_application_is_refused() -> None:
    app, db = application()

    with pytest.raises(ConfigurationError, match="takes the Flask application first"):
        Geneva().init_app(db, app)  # type: ignore[arg-type]


def test_a_second_call_is_refused() -> None:
    app, db = application()
    geneva = Geneva(app, db)

    with pytest.raises(ConfigurationError, match="called twice for the application 'shop'"):
        geneva.init_app(app, db)


def test_an_application_without_a_default_database_is_refused() -> None:
    app, db = application(SQLALCHEMY_BINDS={"other": "sqlite://"})

    with pytest.raises(ConfigurationError, match="Set SQLALCHEMY_DATABASE_URI"):
        Geneva(app, db)


def test_a_workflow_of_an_application_without_the_extension_is_refused() -> None:
    app, _ = application()

    with app.app_context(), pytest.raises(ConfigurationError, match=r"'shop' has no Geneva. Call geneva\.init_app"):
        Workflow.create()


def test_a_workflow_outside_of_an_application_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"There is no application context"):
        Workflow.create()


def test_a_worker_that_has_loaded_no_workflow_class_says_what_will_come_of_it(
    queueing_app: Flask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Runtime, "declared_classes", lambda self: {})

    burst()

    assert "has no workflow class loaded" in caplog.text
    assert "in the application factory" in caplog.text
