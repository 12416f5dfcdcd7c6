"""Processes that are killed at a chosen moment of their conversation with the database."""

from __future__ import annotations

import itertools
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

from flask import Flask
from sqlalchemy import Engine, event

from flask_geneva.worker.connections import forget_connections
from tests.harness.models import db


def die_at(moment: int, engine: Engine) -> None:
    """From now on count what the engine is asked to do, and end this process without a word before that request.

    Statements and commits count alike; request 1 is the next one. Only for a process that may die: a work-horse.
    """
    _arm(_counting_down(moment), engine)


def is_killed_at(moment: int, app: Flask, work: Callable[[], object]) -> bool:
    """Do the work in a process of its own that is killed at that moment; False when it had ended before.

    A moment lies before each statement, before each commit, and between each commit and what is sent to Redis then.
    """
    db.session.remove()
    process_id = os.fork()
    if process_id == 0:
        _work_until(moment, app, work)
    _, status = os.waitpid(process_id, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the work failed, see above"
    return False


def _work_until(moment: int, app: Flask, work: Callable[[], object]) -> None:
    status = 1
    try:
        forget_connections(app)
        with app.app_context():
            come_to_pass = _counting_down(moment)
            _arm(come_to_pass, db.engine)
            # First of all that follows a commit: before the outbox sends.
            event.listen(db.session, "after_commit", come_to_pass, insert=True)
            work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # Not the exit handlers of the test's process, and not its stack.
        os._exit(status)


def _arm(come_to_pass: Callable[..., None], engine: Engine) -> None:
    event.listen(engine, "before_cursor_execute", come_to_pass)
    event.listen(engine, "commit", come_to_pass)


def _counting_down(moment: int) -> Callable[..., None]:
    requests = itertools.count(1)

    def come_to_pass(*_: Any) -> None:
        if next(requests) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    return come_to_pass
