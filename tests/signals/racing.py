"""Two sides meet at every possible moment of one another.

One side is stopped before its n-th statement, the other runs before its m-th or to its end, or as far as the first
one's locks let it; then the first goes on, and then the second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flask import Flask
from sqlalchemy import event

from flask_geneva import Workflow
from flask_geneva.engine.executor import execute
from flask_geneva.engine.run import Run
from tests.harness.models import db

# A side that has sent no statement for so long is taken to be held by the other one's locks.
PATIENCE = 0.12
NEVER = 10_000

Side = Callable[[], object]


class Runner:
    """A thread with a context of its own, which halts before its n-th statement until it is let go."""

    def __init__(self, app: Flask, side: Side, halt_before: int) -> None:
        self.error: BaseException | None = None
        self.has_halted, self._go = threading.Event(), threading.Event()
        self._last_moved = 0.0
        self._app, self._side, self._left = app, side, halt_before
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Let it run to its halt or its end, or as far as it comes."""
        self._last_moved = time.monotonic()
        self._thread.start()
        while self._is_moving() and not self.has_halted.wait(0.003):
            pass

    def go_on(self) -> None:
        """Let it go on to its end, or as far as it comes."""
        self._last_moved = time.monotonic()
        self._go.set()
        while self._is_moving():
            self._thread.join(0.003)

    def end(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()

    def before_statement(self, *_: Any) -> None:
        if threading.current_thread() is not self._thread:
            return
        self._last_moved = time.monotonic()
        if self._left == 0:
            self.has_halted.set()
            assert self._go.wait(30)
        self._left -= 1

    def _is_moving(self) -> bool:
        return self._thread.is_alive() and time.monotonic() - self._last_moved < PATIENCE

    def _run(self) -> None:
        try:
            with self._app.app_context():
                self._side()
        except BaseException as error:
            self.error = error


def race(app: Flask, first: Side, second: Side, halt_before: int, then_before: int = NEVER) -> tuple[bool, list[str]]:
    """Whether the first side had so many statements, and how each side ended: ``ok`` or the name of its error."""
    db.session.rollback()
    runners = Runner(app, first, halt_before), Runner(app, second, then_before)
    with _watching(*runners):
        for runner in runners:
            runner.start()
        for runner in runners:
            runner.go_on()
        for runner in runners:
            runner.end()
    return runners[0].has_halted.is_set(), [_told(runner) for runner in runners]


def _told(runner: Runner) -> str:
    return "ok" if runner.error is None else type(runner.error).__name__


@contextmanager
def _watching(*runners: Runner) -> Iterator[None]:
    for runner in runners:
        event.listen(db.engine, "before_cursor_execute", runner.before_statement)
    try:
        yield
    finally:
        for runner in runners:
            event.remove(db.engine, "before_cursor_execute", runner.before_statement)


def job(app: Flask, workflow: Workflow[Any], **options: Any) -> Side:
    """What a worker does that has the job of the workflow's open execution."""
    execution = workflow.current_execution
    assert execution is not None
    execution_id, runtime = execution.id, app.extensions["geneva"].runtime
    db.session.rollback()
    return lambda: execute(Run(runtime, db.session(), **{"runs_ahead": False, **options}), execution_id)


def verb(workflow: Workflow[Any], name: str, *arguments: Any, **options: Any) -> Side:
    """What somebody does who has found the workflow, acts on it and commits."""
    workflow_id = workflow.id
    db.session.rollback()

    def act() -> None:
        getattr(db.session.get_one(Workflow, workflow_id), name)(*arguments, **options)
        db.session.commit()

    return act
