"""What must happen after the commit: jobs to send, events to announce.

Notes are kept in ``session.info``, by the savepoint that they were made in. A released savepoint hands its notes to
its parent, one that is rolled back takes them along, and the outermost commit acts on what is left. A session cannot
run SQL at that moment, so a note holds all that it needs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from flask_geneva import events
from flask_geneva.engine.runtime import JobRequest, Runtime
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import WorkflowState

logger = logging.getLogger(__name__)

_NOTES = "geneva_outbox"
_EVENTS_OF_REST = {
    WorkflowState.PAUSED: events.workflow_paused,
    WorkflowState.FINISHED: events.workflow_finished,
    WorkflowState.CANCELED: events.workflow_canceled,
}


@dataclass
class _Note:
    runtime: Runtime
    request: JobRequest | None = None
    announce: Callable[[], None] | None = None


# None is the transaction itself.
Notes = dict[SessionTransaction | None, list[_Note]]


def listen(sessions: Any) -> None:
    """Attach the outbox to the sessions of a Flask-SQLAlchemy object; a second call changes nothing."""
    if event.contains(sessions, "after_commit", _after_commit):
        return
    event.listen(sessions, "after_commit", _after_commit)
    event.listen(sessions, "after_transaction_end", _after_transaction_end)


def enqueue_after_commit(runtime: Runtime, session: Session, request: JobRequest) -> None:
    """Send the job once everything around is committed."""
    _note(session, _Note(runtime, request=request))


def announce_after_commit(runtime: Runtime, session: Session, signal: Any, **facts: Any) -> None:
    """Send the event once everything around is committed; its facts must be plain values."""
    if not signal.receivers:
        return
    _note(session, _Note(runtime, announce=lambda: events.send(signal, runtime.app, **facts)))


def announce_rest_after_commit(runtime: Runtime, session: Session, workflow: WorkflowRow) -> None:
    """Send the event of a workflow that has come to rest, likewise; of one that goes on there is nothing to tell."""
    signal = _EVENTS_OF_REST.get(workflow.state)
    if signal is not None:
        name = runtime.name_of(workflow.type)
        announce_after_commit(runtime, session, signal, workflow_id=workflow.id, workflow_class=name)


def noted(session: Session) -> Notes:
    """What is noted, by savepoint: each ends at a cost of its own notes alone, however many there are in all."""
    notes: Notes = session.info.setdefault(_NOTES, {})
    return notes


def act_on(noted: Notes) -> None:
    """Send the jobs and announce the events of a transaction that is known to be committed."""
    notes = [note for each in noted.values() for note in each]
    requests: dict[int, tuple[Runtime, list[JobRequest]]] = {}
    for note in notes:
        if note.request is not None:
            requests.setdefault(id(note.runtime), (note.runtime, []))[1].append(note.request)
    for runtime, batch in requests.values():
        _send(runtime, batch)
    for note in notes:
        if note.announce is not None:
            note.announce()


def _note(session: Session, note: _Note) -> None:
    noted(session).setdefault(session.get_nested_transaction(), []).append(note)


def _after_commit(session: Session) -> None:
    notes = noted(session)
    if not notes:
        return
    released = session.get_nested_transaction()
    if released is None:
        session.info[_NOTES] = {}
        act_on(notes)
    elif released in notes:
        parent = released.parent if released.parent is not None and released.parent.nested else None
        notes.setdefault(parent, []).extend(notes.pop(released))


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    """Drop what was noted in a transaction that ended without passing it on."""
    if transaction.parent is None:
        session.info[_NOTES] = {}
    elif transaction.nested:
        noted(session).pop(transaction, None)


def _send(runtime: Runtime, batch: list[JobRequest]) -> None:
    if not runtime.settings.enqueue:
        return
    try:
        runtime.queue.enqueue(batch)
    except Exception as error:
        # The rows are committed: they are the obligation, and housekeeping sends what the queue did not get.
        logger.warning("%d job(s) could not be sent and are left to housekeeping: %s", len(batch), error)
