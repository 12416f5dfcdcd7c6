"""The functions whose names are stored in Redis."""

from __future__ import annotations

from flask import Flask, current_app
from flask.cli import NoAppException, ScriptInfo
from rq import get_current_job

from flask_geneva.engine.executor import execute
from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.errors import ConfigurationError


def perform_step(execution_id: int) -> None:
    """Run a step execution, and straight on what is due after it; in the worker's application or ``FLASK_APP``'s.

    Commits. A second job for the same execution does nothing. Raises the step's error after everything is committed,
    when its policy reports it, so that RQ and error trackers see it.
    """
    if current_app:
        _perform(execution_id)
        return
    with load_application().app_context():
        _perform(execution_id)


def load_application() -> Flask:
    """Load the application that ``FLASK_APP`` names.

    :raises ConfigurationError: where it cannot be found; no row is touched then.
    """
    try:
        return ScriptInfo().load_app()
    except NoAppException as error:
        raise ConfigurationError(
            "Cannot run a step: this worker has no Flask application. Start it with 'flask geneva worker', "
            "or set FLASK_APP for 'rq worker'."
        ) from error


def _perform(execution_id: int) -> None:
    runtime = current_runtime()
    session = runtime.session()
    job = get_current_job()
    run = Run(runtime, session, job_id=None if job is None else job.id)
    try:
        execute(run, execution_id)
    finally:
        session.close()
    if run.error_to_report is not None:
        raise run.error_to_report
