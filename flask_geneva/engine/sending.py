"""A signal on its way in: checked, stored once, and brought to the step that waits for it.

Who sends holds the workflow's lock from before the insert to the end of the transaction, so that two deliveries of one
key wait for one another at the lock alone. A step that sends takes no lock before its commit, which
:mod:`.outgoing_signals` sees to.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from flask_geneva.engine.attempt import Attempt, running_in
from flask_geneva.engine.outgoing_signals import post, posted
from flask_geneva.engine.runtime import Runtime
from flask_geneva.engine.signal_delivery import announce, delivered_before, meet
from flask_geneva.engine.transactions import lock_workflow, read_workflow
from flask_geneva.errors import InvalidSignal, InvalidStateError, SignalPayloadTooLarge, WorkflowNotOngoing
from flask_geneva.records.instances import free_instance_of, instance_of
from flask_geneva.records.savepoints import savepoint
from flask_geneva.records.saving import insert_unless_taken
from flask_geneva.records.signal import Signal, SignalRow
from flask_geneva.records.transitions import new_signal
from flask_geneva.records.values import check_size, encode
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import ENDED_WORKFLOW_STATES

logger = logging.getLogger(__name__)

MAX_NAME_LENGTH = 255


@dataclass(frozen=True, kw_only=True)
class _Arrival:
    """A signal that is being sent, and the object and row of the workflow that it is sent to."""

    runtime: Runtime
    session: Session
    target: Any
    workflow: WorkflowRow
    name: str
    structure: Any
    key: str | None

    @property
    def is_too_late(self) -> bool:
        return self.workflow.state in ENDED_WORKFLOW_STATES

    def draft(self) -> SignalRow:
        return new_signal(
            workflow_id=self.workflow.id, name=self.name, idempotency_key=self.key, payload=self.structure
        )

    def stored_before(self) -> SignalRow | None:
        return delivered_before(self.session, self.workflow.id, self.name, self.key)


def deliver(runtime: Runtime, session: Session, target: Any, name: str, payload: object, key: str | None) -> Signal:
    """Store a signal for the workflow and wake the step that waits for it, all or nothing; flush.

    :param target: the sender's own workflow object; predicates of matchers see it.
    """
    _check_text(name, "the name of a signal", required=True)
    _check_text(key, "an idempotency key", required=False)
    structure = _structure(runtime, name, payload)
    sender = running_in(session)
    with savepoint(session):
        # Not the attribute: an expired object would read it first, and a detached one could not.
        identity = inspect(target).identity
        row_of = lock_workflow if sender is None else read_workflow
        workflow = None if identity is None else row_of(session, identity[0])
        if workflow is None:
            raise InvalidStateError(
                f"Cannot deliver signal '{name}' to {target!r}: the workflow is not stored, or not any more."
            )
        arrival = _Arrival(
            runtime=runtime,
            session=session,
            target=target,
            workflow=workflow,
            name=name,
            structure=structure,
            key=key,
        )
        return _deliver_at_once(arrival) if sender is None else _leave_to_the_commit(arrival, sender)


def _deliver_at_once(arrival: _Arrival) -> Signal:
    runtime, session, workflow, row = arrival.runtime, arrival.session, arrival.workflow, arrival.draft()
    # Insert first and look afterwards: a look for what is not there would lock a gap of MySQL's index.
    if arrival.is_too_late or not insert_unless_taken(session, row, now=runtime.now()):
        return _known(arrival, arrival.stored_before())
    announce(runtime, session, workflow, row)
    signal = instance_of(session, Signal, row)
    meet(runtime, session, workflow, arrival.target, row)
    return signal


def _leave_to_the_commit(arrival: _Arrival, sender: Attempt) -> Signal:
    row = posted(sender, arrival.workflow.id, arrival.name, arrival.key) or arrival.stored_before()
    if row is not None or arrival.is_too_late:
        return _known(arrival, row)
    return instance_of(arrival.session, Signal, post(sender, arrival.draft()))


def _known(arrival: _Arrival, row: SignalRow | None) -> Signal:
    """The signal that came before under the same key, as an object that says so."""
    workflow = arrival.workflow
    if row is None:
        raise WorkflowNotOngoing(workflow.type, workflow.id, workflow.state, arrival.name)
    if row.payload != arrival.structure:
        logger.warning(
            "Signal '%s' came again to workflow #%s with key %r and another payload; the first one stands.",
            row.name,
            row.workflow_id,
            row.idempotency_key,
        )
    # An object of its own: the one that the first delivery returned must not turn into a duplicate.
    repeated = free_instance_of(arrival.session, Signal, row)
    set_committed_value(repeated, "workflow", arrival.target)
    repeated.duplicate_delivery = True
    return repeated


def _structure(runtime: Runtime, name: str, payload: object) -> Any:
    structure = encode(payload)
    limit = runtime.settings.max_signal_payload_size
    what = f"the payload of signal '{name}'"
    check_size(structure, limit, SignalPayloadTooLarge, "GENEVA_MAX_SIGNAL_PAYLOAD_SIZE", what)
    return structure


def _check_text(value: str | None, what: str, *, required: bool) -> None:
    if value is None and not required:
        return
    if not isinstance(value, str):
        raise InvalidSignal(f"Cannot deliver a signal: {what} must be a string, not {value!r}.")
    if not 1 <= len(value) <= MAX_NAME_LENGTH:
        raise InvalidSignal(
            f"Cannot deliver a signal: {what} must have 1 to {MAX_NAME_LENGTH} characters, this one has {len(value)}."
        )
    if not _is_storable(value):
        raise InvalidSignal(
            f"Cannot deliver a signal: {what} must have neither NUL characters nor lone surrogates, not {value!r}."
        )


def _is_storable(text: str) -> bool:
    """Whether all databases can hold it: PostgreSQL stores no NUL, and UTF-8 no lone surrogate."""
    return "\x00" not in text and text.encode("utf-8", "replace").decode() == text
