"""Builds the application that a test runs in, and the one that a worker process loads."""

from __future__ import annotations

import importlib
import os
from typing import Any

from flask import Config, Flask, current_app

from flask_geneva import Geneva
from flask_geneva.worker.running import run_worker
from tests.harness.models import db

DATABASE_VARIABLE = "GENEVA_TEST_APP_DATABASE_URL"
REDIS_VARIABLE = "GENEVA_TEST_APP_REDIS_URL"
MODULES_VARIABLE = "GENEVA_TEST_APP_MODULES"

geneva = Geneva()


def make_app(database_url: str, redis_url: str | None = None, **config: Any) -> Flask:
    """Build a fresh application; without a Redis it writes rows and sends nothing.

    ``db`` and ``geneva`` are those of the module, shared by all applications of a test run.
    """
    app = Flask("tests.harness")
    app.config.from_mapping(TESTING=True, SQLALCHEMY_DATABASE_URI=database_url, SECRET_KEY="not a secret")
    if redis_url is None:
        app.config["GENEVA_ENQUEUE"] = False
    else:
        app.config["GENEVA_REDIS_URL"] = redis_url
    app.config.from_mapping(config)
    _forget_geneva_tables()
    db.init_app(app)
    geneva.init_app(app, db)
    return app


def burst(*queues: str) -> None:
    """Work on queues of the current application in this process until they are empty."""
    run_worker(current_app._get_current_object(), queues, burst=True, fork=False)  # type: ignore[attr-defined]


def _forget_geneva_tables() -> None:
    """Let the next application add them again: their DDL differs between databases, and ``db`` is used on all."""
    for name in [name for name in db.metadata.tables if name.startswith("geneva_")]:
        db.metadata.remove(db.metadata.tables[name])


def create_app() -> Flask:
    """The factory for ``flask --app tests.harness.apps``: what to load is in the environment."""
    config = Config(".")
    config.from_prefixed_env("GENEVA_TEST_CONFIG")
    app = make_app(os.environ[DATABASE_VARIABLE], os.environ[REDIS_VARIABLE], **config)
    for module in filter(None, os.environ.get(MODULES_VARIABLE, "").split(",")):
        importlib.import_module(module)
    return app
