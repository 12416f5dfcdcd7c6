"""Checkpoints: the cursor stored with the step's own writes, in one UPDATE and one commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import bindparam, exists, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import SessionTransaction

from flask_geneva.definition.flow_control import FlowControl
from flask_geneva.engine.attempt import Attempt, run_again
from flask_geneva.engine.outgoing_signals import dispatch
from flask_geneva.engine.run import Run
from flask_geneva.engine.transactions import is_transient, lock_both
from flask_geneva.errors import CursorTooLarge, WorkTakenBack
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

_UNREAD: Any = object()


class Checkpoints:
    """The cursor of one execution, and how it gets into the database.

    The cursor in memory is at most so far ahead of the stored one as the transaction holds work of the step: whatever
    commits the one stores the other, and whatever takes the one back forgets the other.
    """

    def __init__(self, run: Run, attempt: Attempt) -> None:
        self._run = run
        self._attempt = attempt
        self.session = attempt.session
        self._first = self._stored = attempt.execution.cursor_value
        self._cursor: Any = _UNREAD
        self._structure = self._stored
        self.count = 0
        self.total: int | None = attempt.execution.iteration_total
        self.asked_to_stop = False
        self._is_in_loop = False
        self._done = attempt.execution.items_done or 0
        # Items that are done and not stored yet, and the transaction that holds their work.
        self._items = 0
        self._work: SessionTransaction | None = None
        self._has_moved = False

    @property
    def cursor(self) -> Any:
        """Where the step is, as it was set."""
        if self._cursor is _UNREAD:
            self._cursor = decode(self._stored, self.session, models_known_to(self.session))
        return self._cursor

    @property
    def has_progressed(self) -> bool:
        """Whether the stored cursor differs from the one that this execution began with."""
        return bool(self._stored != self._first)

    def move(self, value: object) -> None:
        """Set the cursor in memory, when it can be stored."""
        self._storable(value)
        self._cursor = value
        self._has_moved = True

    def pass_to(self, value: object, *, items: int = 1) -> None:
        """Items are done, so set the cursor in memory; whether it can be stored is seen when it is.

        :raises WorkTakenBack: when the work on items before this one is not in the session's transaction any more.
        """
        self._refuse_lost_work()
        self._items += items
        self._work = self.session.get_transaction()
        self._cursor = value
        self._has_moved = True

    @contextmanager
    def in_loop(self) -> Iterator[None]:
        """Count the items that are passed, and not the checkpoints."""
        self._is_in_loop = True
        try:
            yield
        finally:
            self._is_in_loop = False

    def make(self) -> None:
        """Store and commit. ``asked_to_stop`` is set where an operator wants so, or the attempt is fenced.

        Where the database refuses, the cursor is again the one that is stored.
        """
        with self._storing(), self._run.time_limit.suspended():
            self._make()

    def keep_place(self) -> None:
        """Store a cursor that is ahead of the stored one, without a commit, which the end of the attempt makes."""
        if not self._has_moved:
            return
        with self._storing(), self._run.time_limit.suspended():
            self._lock_the_workflows()
            # The end locks both rows: the workflow's must not come after the execution's, which is written here.
            lock_both(self.session, self._attempt.workflow.id, self._attempt.execution.id)
            if self._write(_OWN, self.count, self._items):
                self._settle(self._items)

    def forget(self) -> None:
        """Go back to the cursor that is stored."""
        self._cursor = _UNREAD
        self._be_even()

    def note_commit(self) -> None:
        """The step has committed by itself, so that the work on its items can be taken back no more."""
        self._work = None

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """End the attempt, to be run again from the stored cursor, where the database asks for patience within.

        The step cannot catch that: it would go on without the work that was rolled back.
        """
        try:
            yield
        except DBAPIError as error:
            if not is_transient(error):
                raise
            self._attempt.logger.warning("The database refused a checkpoint for now; the step is run again: %s", error)
            self.forget()
            self._attempt.outgoing = []
            self.session.rollback()
            raise FlowControl(run_again(error)) from error

    @contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            with self.patiently():
                self._attempt.keep_session()
                self._refuse_lost_work()
                yield
        except BaseException:
            self.forget()
            raise

    def _make(self) -> None:
        # A checkpoint by hand, outside of a loop, is an item of its own.
        items = self._items if self._is_in_loop else 1
        self._lock_the_workflows()
        if not self._write(_UNDISTURBED, self.count + 1, items, of_workflow=self._attempt.workflow.id):
            self.asked_to_stop = True
            lock_both(self.session, self._attempt.workflow.id, self._attempt.execution.id)
            if not self._write(_OWN, self.count + 1, items):
                # Fenced: what the step wrote since the last checkpoint is left to the end of the attempt to roll back.
                self.forget()
                return
        self._commit()
        self.count += 1
        self._settle(items)

    def _lock_the_workflows(self) -> None:
        """Where the step has sent signals, dispatch them before the execution's row is written, which locks it."""
        self.session.flush()
        dispatch(self._attempt)

    def _storable(self, value: object) -> Any:
        structure = encode(value, name="cursor")
        limit = self._run.runtime.settings.max_cursor_size
        check_size(structure, limit, CursorTooLarge, "GENEVA_MAX_CURSOR_SIZE", "the cursor")
        return structure

    def _write(self, statement: Any, iterations: int, items: int, **extra: int) -> bool:
        self._structure = self._stored if self._cursor is _UNREAD else self._storable(self._cursor)
        values = {
            "cursor_value": self._structure,
            "completed_iterations": iterations,
            "iteration_total": self.total,
            "items_done": self._done + items,
            "updated_at": self._run.runtime.now(),
        }
        parameters = {"row_id": self._attempt.execution.id, **extra, **values}
        return bool(self.session.connection().execute(statement, parameters).rowcount)

    def _settle(self, items: int) -> None:
        """The cursor is stored."""
        self._stored = self._structure
        self._done += items
        self._be_even()

    def _be_even(self) -> None:
        self._items, self._work, self._has_moved = 0, None, False

    def _refuse_lost_work(self) -> None:
        if self._work is not None and self.session.get_transaction() is not self._work:
            raise WorkTakenBack(self._attempt.step.name, self._items)

    def _commit(self) -> None:
        """Commit without expiring what is loaded: each record of a page would be read a second time."""
        expires = self.session.expire_on_commit
        self.session.expire_on_commit = False
        try:
            self.session.commit()
        finally:
            self.session.expire_on_commit = expires
