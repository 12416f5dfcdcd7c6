"""Signals that a step sends: stored at once, and met with the steps that wait for them when the step commits.

Taking the target's lock at once would let two workflows wait for one another, when each signals the other and then
wants its own row for the end of its step. So the locks are taken at the commit, the step's own among them, in the order
of the workflows' ids. Until then nobody sees the signal, so nothing is lost by it.
"""

from __future__ import annotations

import logging
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

from flask_geneva.engine.attempt import Attempt, running_in
from flask_geneva.engine.signal_delivery import meet
from flask_geneva.engine.transactions import lock_workflow, read_current
from flask_geneva.records.instances import instance_of
from flask_geneva.records.signal import Signal, SignalRow
from flask_geneva.records.tables import signals
from flask_geneva.states import ENDED_WORKFLOW_STATES, SignalState

logger = logging.getLogger(__name__)


def listen(sessions: Any) -> None:
    """See to it that a commit in the middle of a step takes its signals along; a second call changes nothing."""
    if not event.contains(sessions, "before_commit", _before_commit):
        event.listen(sessions, "before_commit", _before_commit)


def dispatch(attempt: Attempt) -> None:
    """Let the signals that the step has sent wake whom they may. The locks are held to the end of the transaction."""
    if not attempt.outgoing:
        return
    session, outgoing = attempt.session, attempt.outgoing
    attempt.outgoing = []
    ids = {workflow_id for workflow_id, _ in outgoing} | {attempt.workflow.id}
    locked = {workflow_id: lock_workflow(session, workflow_id) for workflow_id in sorted(ids)}
    for workflow_id, signal_id in outgoing:
        workflow = locked[workflow_id]
        stored = read_current(session, SignalRow, signals.c.id == signal_id)
        # None is left of what was sent within a savepoint that the step rolled back.
        if workflow is None or not stored or stored[0].state is not SignalState.PENDING:
            continue
        if workflow.state in ENDED_WORKFLOW_STATES:
            attempt.logger.warning("Signal '%s' came too late: workflow #%s has ended.", stored[0].name, workflow_id)
            continue
        runtime = attempt.runtime
        target = instance_of(session, runtime.class_named(workflow.type) or runtime.workflow_class, workflow)
        meet(runtime, session, workflow, target, instance_of(session, Signal, stored[0]))


def _before_commit(session: Session) -> None:
    attempt = running_in(session)
    if attempt is not None and session.get_nested_transaction() is None:
        session.flush()
        dispatch(attempt)
