"""Checkpoints: the cursor stored with the step's own writes, in one UPDATE and one commit."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, exists, update

from flask_geneva.engine.attempt import Attempt
from flask_geneva.engine.outgoing_signals import dispatch
from flask_geneva.engine.run import Run
from flask_geneva.engine.transactions import lock_both
from flask_geneva.errors import CursorTooLarge
from flask_geneva.records.base import models_known_to
from flask_geneva.records.saving import by_primary_key
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.records.values import check_size, decode, encode
from flask_geneva.states import StepState, WorkflowState

_OWN = by_primary_key(update(step_executions)).where(
    step_executions.c.id == bindparam("row_id"), step_executions.c.state == StepState.IN_PROGRESS
)
# It stores nothing where an operator asked for a stop, or the attempt was taken from this worker: one statement
# both stores and looks.
_UNDISTURBED = _OWN.where(
    exists().where(
        workflows.c.id == bindparam("of_workflow"),
        workflows.c.state == WorkflowState.PERFORMING,
        workflows.c.pending_request.is_(None),
    )
)

_UNSEEN: Any = object()


class Checkpoints:
    """The cursor of one execution, and how it gets into the database."""

    def __init__(self, run: Run, attempt: Attempt) -> None:
        self._run = run
        self._attempt = attempt
        self.session = attempt.session
        self._first = attempt.execution.cursor_value
        self._structure = self._stored = self._first
        self.cursor: Any = decode(self._first, self.session, models_known_to(self.session))
        self.count = 0
        self.total: int | None = attempt.execution.iteration_total
        self.asked_to_stop = False

    @property
    def has_progressed(self) -> bool:
        """Whether the stored cursor differs from the one that this execution began with."""
        return bool(self._stored != self._first)

    def move(self, value: object) -> None:
        """Set the cursor in memory, when it can be stored."""
        self._structure = self._storable(value)
        self.cursor = value

    def pass_to(self, value: object) -> None:
        """Set the cursor in memory; whether it can be stored is seen when it is, which may be many items later."""
        self.cursor = value
        self._structure = _UNSEEN

    def make(self) -> None:
        """Store and commit. ``asked_to_stop`` is set where an operator wants so, or the attempt is fenced."""
        self._attempt.keep_session()
        with self._run.time_limit.suspended():
            self._make()

    def store_cursor(self) -> None:
        """Store the cursor without a commit, which the end of the attempt makes."""
        self._attempt.keep_session()
        self._lock_the_workflows()
        # The end locks both rows: the workflow's must not come after the execution's, which is written here.
        lock_both(self.session, self._attempt.workflow.id, self._attempt.execution.id)
        self._write(_OWN)

    def _make(self) -> None:
        self.count += 1
        self._lock_the_workflows()
        if not self._write(_UNDISTURBED, of_workflow=self._attempt.workflow.id):
            self.asked_to_stop = True
            lock_both(self.session, self._attempt.workflow.id, self._attempt.execution.id)
            if not self._write(_OWN):
                # Fenced: what the step wrote since the last checkpoint is left to the end of the attempt to roll back.
                return
        self._commit()

    def _lock_the_workflows(self) -> None:
        """Where the step has sent signals, dispatch them before the execution's row is written, which locks it."""
        self.session.flush()
        dispatch(self._attempt)

    def _storable(self, value: object) -> Any:
        structure = encode(value, name="cursor")
        limit = self._run.runtime.settings.max_cursor_size
        check_size(structure, limit, CursorTooLarge, "GENEVA_MAX_CURSOR_SIZE", "the cursor")
        return structure

    def _write(self, statement: Any, **extra: int) -> bool:
        if self._structure is _UNSEEN:
            self._structure = self._storable(self.cursor)
        values = {
            "cursor_value": self._structure,
            "completed_iterations": self.count,
            "iteration_total": self.total,
            "updated_at": self._run.runtime.now(),
        }
        parameters = {"row_id": self._attempt.execution.id, **extra, **values}
        is_written = bool(self.session.connection().execute(statement, parameters).rowcount)
        if is_written:
            self._stored = self._structure
        return is_written

    def _commit(self) -> None:
        """Commit without expiring what is loaded: each record of a page would be read a second time."""
        expires = self.session.expire_on_commit
        self.session.expire_on_commit = False
        try:
            self.session.commit()
        finally:
            self.session.expire_on_commit = expires
