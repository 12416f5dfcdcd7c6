"""Signals that a step sends: stored at once, and met with the steps that wait for them when the step commits.

Taking the target's lock at once would let two workflows wait for one another, when each signals the other and then
wants its own row for the end of its step. So the locks are taken at the commit, the step's own among them, in the order
of the workflows' ids. For the same reason a row gets its key at the commit: in the index that keeps keys apart an
outside sender, who holds the lock already, would wait for the step, and the step for the lock. Until the commit nobody
sees the signal, so nothing is lost by it.
"""

from __future__ import annotations

import logging
from typing import Any

from sqlalchemy import delete, event
from sqlalchemy.orm import Session
from sqlalchemy.orm.util import identity_key

from flask_geneva.engine.attempt import Attempt, OutgoingSignal, running_in
from flask_geneva.engine.signal_delivery import announce, delivered_before, meet
from flask_geneva.engine.transactions import lock_workflow, read_current
from flask_geneva.records.instances import instance_of
from flask_geneva.records.saving import save
from flask_geneva.records.signal import Signal, SignalRow
from flask_geneva.records.tables import signals
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import ENDED_WORKFLOW_STATES

logger = logging.getLogger(__name__)


def listen(sessions: Any) -> None:
    """See to it that a commit in the middle of a step takes its signals along; a second call changes nothing."""
    if not event.contains(sessions, "before_commit", _before_commit):
        event.listen(sessions, "before_commit", _before_commit)


def post(attempt: Attempt, row: SignalRow) -> SignalRow:
    """Store a signal that the running step sends, without its key, and note it for the commit."""
    key = row.idempotency_key
    row.change(idempotency_key=None)
    save(attempt.session, row, now=attempt.runtime.now())
    attempt.outgoing.append(
        OutgoingSignal(workflow_id=row.workflow_id, signal_id=row.id, name=row.name, idempotency_key=key)
    )
    return _with_key(row, key)


def posted(attempt: Attempt, workflow_id: int, name: str, key: str | None) -> SignalRow | None:
    """Find the signal that the step has sent under the key already."""
    for sent in attempt.outgoing:
        if key is not None and (sent.workflow_id, sent.name, sent.idempotency_key) == (workflow_id, name, key):
            row = _stored(attempt.session, sent)
            if row is not None:
                return _with_key(row, key)
    return None


def dispatch(attempt: Attempt) -> None:
    """Let the signals that the step has sent wake whom they may. The locks are held to the end of the transaction."""
    if not attempt.outgoing:
        return
    outgoing, attempt.outgoing = attempt.outgoing, []
    ids = {sent.workflow_id for sent in outgoing} | {attempt.workflow.id}
    locked = {workflow_id: lock_workflow(attempt.session, workflow_id) for workflow_id in sorted(ids)}
    for sent in outgoing:
        workflow, row = locked[sent.workflow_id], _stored(attempt.session, sent)
        if workflow is not None and row is not None and _has_got_key(attempt, row, sent.idempotency_key):
            _arrive(attempt, workflow, row)


def _arrive(attempt: Attempt, workflow: WorkflowRow, row: SignalRow) -> None:
    runtime, session = attempt.runtime, attempt.session
    announce(runtime, session, workflow, row)
    if workflow.state in ENDED_WORKFLOW_STATES:
        attempt.logger.warning("Signal '%s' came too late: workflow #%s has ended.", row.name, workflow.id)
        return
    target = instance_of(session, runtime.class_named(workflow.type) or runtime.workflow_class, workflow)
    meet(runtime, session, workflow, target, row)


def _has_got_key(attempt: Attempt, row: SignalRow, key: str | None) -> bool:
    """Give the row its key, under its workflow's lock; where the event has come from elsewhere, drop it: False."""
    if key is None:
        return True
    session = attempt.session
    if delivered_before(session, row.workflow_id, row.name, key) is None:
        row.change(idempotency_key=key)
        save(session, row, now=attempt.runtime.now())
        return True
    attempt.logger.info("Signal '%s' with key %r came to workflow #%s before.", row.name, key, row.workflow_id)
    session.connection().execute(delete(signals).where(signals.c.id == row.id))
    of_the_step = session.identity_map.get(identity_key(Signal, row.id))
    if of_the_step is not None:
        session.expunge(of_the_step)
    return False


def _stored(session: Session, sent: OutgoingSignal) -> SignalRow | None:
    """The row, unless the step has rolled it back; SQLite gives its number to another one then."""
    rows = read_current(session, SignalRow, signals.c.id == sent.signal_id)
    return rows[0] if rows and (rows[0].workflow_id, rows[0].name) == (sent.workflow_id, sent.name) else None


def _with_key(row: SignalRow, key: str | None) -> SignalRow:
    """The row as it will be after the commit."""
    return SignalRow({**row.values(), "idempotency_key": key})


def _before_commit(session: Session) -> None:
    attempt = running_in(session)
    if attempt is not None and session.get_nested_transaction() is None:
        session.flush()
        dispatch(attempt)
