"""The Flask extension: one object that connects applications with their database and their queue."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from flask import Flask, current_app
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Engine

from flask_geneva import config
from flask_geneva.cli import geneva_group
from flask_geneva.dashboard.access import Access
from flask_geneva.dashboard.metrics import metrics_blueprint
from flask_geneva.engine import sessions
from flask_geneva.engine.runtime import Runtime
from flask_geneva.errors import ConfigurationError
from flask_geneva.housekeeping.run import Summary, run_housekeeping
from flask_geneva.records import missing_schema, sqlite
from flask_geneva.records.base import MODELS_KEY
from flask_geneva.records.references import models_in
from flask_geneva.records.tables import register_tables
from flask_geneva.webhooks import views
from flask_geneva.webhooks.delivery_log import PERISHABLES, register_table
from flask_geneva.webhooks.sources import AnyHandler, Verifier, WebhookSources
from flask_geneva.worker.job_queue import RQJobQueue
from flask_geneva.workflow import Workflow

if TYPE_CHECKING:
    from redis import Redis
    from rq import Queue

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GenevaState:
    """What belongs to one application; it is ``app.extensions["geneva"]``."""

    geneva: Geneva
    db: SQLAlchemy
    runtime: Runtime
    queue: RQJobQueue


class Geneva:
    """Durable workflows for Flask applications; one object serves several of them.

    ``Geneva(app, db)`` is the same as ``Geneva()`` and ``init_app(app, db)``.
    """

    def __init__(self, app: Flask | None = None, db: SQLAlchemy | None = None) -> None:
        self.webhook_sources = WebhookSources()
        self._access: Access | None = None
        if app is not None:
            self.init_app(app, db)

    def init_app(self, app: Flask, db: SQLAlchemy | None = None) -> None:
        """Connect an application. Reads and checks the configuration; opens no connection, imports no workflow.

        :raises ConfigurationError: without Flask-SQLAlchemy, for a wrong ``GENEVA_`` value, or at a second call.
        """
        _refuse_mix_ups(app)
        database = _database_of(app, db)
        config.set_defaults(app.config)
        settings = config.read_settings(app.config)
        queue = RQJobQueue(settings)
        runtime = Runtime(
            app=app,
            settings=settings,
            sessions=database.session,
            queue=queue,
            workflow_class=Workflow,
            perishables=(PERISHABLES,),
        )
        app.extensions["geneva"] = GenevaState(self, database, runtime, queue)
        self._prepare_database(app, database, settings)
        views.register(runtime, self.webhook_sources)
        metrics = metrics_blueprint(runtime, lambda: self._access or settings.dashboard_access)
        app.register_blueprint(metrics, url_prefix=settings.url_prefix)
        app.cli.add_command(geneva_group())

    def _prepare_database(self, app: Flask, db: SQLAlchemy, settings: config.Settings) -> None:
        engine = _default_engine(app, db)
        register_tables(db.metadata, engine.dialect.name)
        register_table(db.metadata, engine.dialect.name)
        if settings.configure_sqlite:
            sqlite.configure(engine)
        missing_schema.listen(engine)
        sessions.equip(db.session)
        factory = db.session.session_factory
        known: dict[str, Any] = factory.kw.get("info") or {}
        factory.configure(info={**known, MODELS_KEY: models_in([cast("Any", db.Model).registry])})

    def create_all(self) -> None:
        """Create the library's tables in the current application's database, without Alembic; existing ones stay."""
        db = _state().db
        dialect_name = db.engine.dialect.name
        tables = [*register_tables(db.metadata, dialect_name), register_table(db.metadata, dialect_name)]
        db.metadata.create_all(db.engine, tables=tables)

    def webhook(self, name: str, verifier: Verifier) -> Callable[[AnyHandler], AnyHandler]:
        """Register the decorated function as what handles events sent to ``<prefix>/webhooks/<name>``.

        It takes a :class:`.WebhookEvent` and returns a :class:`.Delivery`, a list of them, or None.

        :raises ConfigurationError: the name is taken, or a secret of the verifier is missing or of the wrong form.
        """
        return self.webhook_sources.register(name, verifier)

    def dashboard_access(self, access: Access) -> Access:
        """Say who may see what is below ``GENEVA_URL_PREFIX`` for people and monitors; may be used as a decorator.

        ``access`` is called in the request, without arguments: a true answer lets in, a response (a redirect to the
        login, say) is sent, and anything else is a 404. It wins over ``GENEVA_DASHBOARD_ACCESS``.
        """
        self._access = access
        return access

    def queue(self, name: str | None = None) -> Queue:
        """Return an RQ queue of the current application: the named one, or ``GENEVA_QUEUE``."""
        return _state().queue.rq_queue(name)

    @property
    def redis(self) -> Redis:
        """The current application's own connection to Redis; it is opened when it is used."""
        return _state().queue.redis

    def run_housekeeping(self) -> Summary:
        """Do one run of housekeeping in the current application and return what it did.

        Commits what ``db.session`` holds, and then a transaction for each row. Two runs at once do no harm.
        """
        return run_housekeeping(_state().runtime)


def _state() -> GenevaState:
    state: GenevaState | None = current_app.extensions.get("geneva")
    if state is None:
        raise ConfigurationError(
            f"The application '{current_app.name}' has no Geneva. Call geneva.init_app(app, db) in its factory."
        )
    return state


def _refuse_mix_ups(app: object) -> None:
    if not isinstance(app, Flask):
        raise ConfigurationError(f"geneva.init_app(app, db) takes the Flask application first, not {app!r}.")
    if "geneva" in app.extensions:
        raise ConfigurationError(
            f"geneva.init_app was called twice for the application '{app.name}'. Call it once, in its factory."
        )


def _default_engine(app: Flask, db: SQLAlchemy) -> Engine:
    with app.app_context():
        engine = db.engines.get(None)
    if engine is None:
        raise ConfigurationError(
            f"The application '{app.name}' has only SQLALCHEMY_BINDS, and the workflows are kept in the default "
            f"database. Set SQLALCHEMY_DATABASE_URI."
        )
    return engine


def _database_of(app: Flask, db: SQLAlchemy | None) -> SQLAlchemy:
    registered = app.extensions.get("sqlalchemy")
    if registered is None:
        raise ConfigurationError(
            f"The application '{app.name}' has no Flask-SQLAlchemy. "
            f"Call db.init_app(app) before geneva.init_app(app, db)."
        )
    if db is not None and db is not registered:
        raise ConfigurationError(
            f"geneva.init_app was given another SQLAlchemy object than the one that '{app.name}' was set up with. "
            f"Give it the one whose init_app(app) was called, or leave it out."
        )
    found: SQLAlchemy = registered
    return found
