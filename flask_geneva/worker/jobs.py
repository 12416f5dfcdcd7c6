"""The functions whose names are stored in Redis."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from flask import Flask, current_app, g
from flask.cli import NoAppException, ScriptInfo, load_dotenv
from rq import get_current_job
from rq.job import Job

from flask_geneva.engine.executor import execute
from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import Runtime, current_runtime
from flask_geneva.errors import ConfigurationError
from flask_geneva.housekeeping import run as housekeeping
from flask_geneva.housekeeping.dead_executions import Death
from flask_geneva.worker.timeout import time_limit

_IS_STOPPING = "geneva_is_stopping"


def perform_step(execution_id: int) -> None:
    """Run a step execution, and straight on what is due after it; in the worker's application or ``FLASK_APP``'s.

    Commits. A second job for the same execution does nothing. Raises the step's error after everything is committed,
    when its policy reports it, so that RQ and error trackers see it.
    """
    with _in_application():
        _perform(execution_id)


def run_housekeeping() -> dict[str, int]:
    """Do one run of housekeeping, for applications that have it called by RQ's cron; return what it did. Commits."""
    with _in_application():
        return housekeeping.run_housekeeping(current_runtime()).as_dict()


def load_application() -> Flask:
    """Load the application that ``FLASK_APP`` names, once in a process.

    :raises ConfigurationError: where it cannot be found; no row is touched then.
    """
    if "FLASK_APP" not in os.environ:
        load_dotenv()
    return _application_named(os.environ.get("FLASK_APP"))


def let_steps_ask(is_stopping: Callable[[], bool]) -> None:
    """Give the steps of the present context a way to ask whether their worker is to end."""
    g.setdefault(_IS_STOPPING, is_stopping)


@lru_cache(maxsize=1)
def _application_named(name: str | None) -> Flask:
    try:
        return ScriptInfo(app_import_path=name).load_app()
    except NoAppException as error:
        raise ConfigurationError(
            f"Cannot run a step: this worker has no Flask application. Start it with 'flask geneva worker', "
            f"or set FLASK_APP for 'rq worker'. ({error})"
        ) from error


@contextmanager
def _in_application() -> Iterator[None]:
    if current_app:
        yield
        return
    with load_application().app_context():
        yield


def _perform(execution_id: int) -> None:
    runtime = current_runtime()
    session = runtime.session()
    job = get_current_job()
    run = Run(
        runtime,
        session,
        job_id=None if job is None else job.id,
        is_stopping=g.get(_IS_STOPPING, lambda: False),
        time_limit=time_limit(_seconds(job)),
    )
    try:
        execute(run, execution_id)
    except BaseException as end:
        if not isinstance(end, Exception):
            _die(runtime, session, job, execution_id, end)
        raise
    finally:
        session.close()
    if run.error_to_report is not None:
        raise run.error_to_report


def _seconds(job: Job | None) -> float | None:
    return None if job is None or job.timeout is None else float(job.timeout)


def _die(runtime: Runtime, session: Any, job: Job | None, execution_id: int, end: BaseException) -> None:
    """Let the step be run again before its process ends: a cold stop, or the step's own ``sys.exit()``."""
    session.invalidate()
    if job is None:
        return
    is_cold = bool(g.get(_IS_STOPPING, lambda: False)())
    cause = "stopped cold" if is_cold else f"ended from within by {type(end).__name__}({end})"
    housekeeping.recover_job(runtime, job.id, execution_id, Death(cause=cause, is_counted=not is_cold))
