"""What an event makes: signals, all or none. Flushes and never commits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import current_app
from sqlalchemy.orm import Session

from flask_geneva.definition.signal_matchers import could_match_name
from flask_geneva.records.scalar_values import is_plain
from flask_geneva.webhooks.bodies import MalformedRequest
from flask_geneva.webhooks.problems import TargetMissing
from flask_geneva.webhooks.sources import Delivery, WebhookEvent, WebhookSource
from flask_geneva.webhooks.verifiers import MAX_EVENT_ID_LENGTH
from flask_geneva.workflow import Workflow

_WORKFLOW_ID = re.compile(r"[1-9][0-9]{0,18}")
_LARGEST_ID = 2**63 - 1
MAX_SIGNAL_NAME_LENGTH = 255


@dataclass(frozen=True, kw_only=True)
class DeliveredSignal:
    """What became of one delivery, as the sender and the log are told."""

    workflow_id: int
    signal_id: int
    name: str
    state: str
    duplicate: bool

    def as_json(self) -> dict[str, Any]:
        """Answer the members that the sender gets."""
        return {"signal_id": self.signal_id, "name": self.name, "state": self.state, "duplicate": self.duplicate}


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What a request made: no signal, one, or a list of them."""

    signals: tuple[DeliveredSignal, ...] = ()
    listed: bool = False

    @property
    def status(self) -> int:
        """Answer 204 for nothing, 200 where every signal was known already, else 202."""
        if not self.signals:
            return 204
        return 200 if all(signal.duplicate for signal in self.signals) else 202

    def as_json(self) -> Mapping[str, Any] | None:
        """Answer the body of the response."""
        if not self.signals:
            return None
        members = [signal.as_json() for signal in self.signals]
        return {"signals": members} if self.listed else members[0]


def hand_over(source: WebhookSource, event: WebhookEvent) -> Receipt:
    """Call the handler of a source and deliver what it answers."""
    answer = current_app.ensure_sync(source.handler)(event)
    if answer is None:
        return Receipt()
    listed = isinstance(answer, list | tuple)
    deliveries = list(answer) if listed else [answer]
    addressed = [(_addressee(source, delivery), delivery) for delivery in deliveries]
    return Receipt(signals=_deliver(addressed, event.id), listed=listed)


def deliver_to_workflow(session: Session, workflow_id: str, name: str, event: WebhookEvent, key: str | None) -> Receipt:
    """Deliver the whole body of a verified event to one workflow, for the built-in endpoint.

    :raises TargetMissing: no such workflow, or no step of its class could ever take a signal of this name.
    """
    if key is not None and not (len(key) <= MAX_EVENT_ID_LENGTH and is_plain(key)):
        raise MalformedRequest(f"'Idempotency-Key' is longer than {MAX_EVENT_ID_LENGTH} characters.")
    workflow = _find(session, workflow_id)
    if workflow is None:
        raise TargetMissing("There is no such workflow.")
    if not _could_take(workflow, name):
        raise TargetMissing(f"No step of workflow #{workflow.id} waits for a signal of this name.")
    return Receipt(signals=_deliver([(workflow, Delivery(workflow, name, event.data, key or None))], event.id))


def _addressee(source: WebhookSource, delivery: object) -> Workflow[Any]:
    if not isinstance(delivery, Delivery):
        raise TypeError(
            f"The handler of webhook source '{source.name}' answered a {type(delivery).__name__}. "
            f"Return a Delivery, a list of them, or None."
        )
    if delivery.workflow is None:
        raise TargetMissing("There is no workflow for this event.")
    if not isinstance(delivery.workflow, Workflow):
        raise TypeError(
            f"The handler of webhook source '{source.name}' made a Delivery to a {type(delivery.workflow).__name__}. "
            f"Pass the workflow itself."
        )
    return delivery.workflow


def _deliver(addressed: list[tuple[Workflow[Any], Delivery]], event_id: str | None) -> tuple[DeliveredSignal, ...]:
    # By id, so that two requests that signal the same workflows lock them in one order.
    order = sorted(range(len(addressed)), key=lambda place: addressed[place][0].id or 0)
    delivered = {place: _deliver_one(*addressed[place], event_id) for place in order}
    return tuple(delivered[place] for place in range(len(addressed)))


def _deliver_one(workflow: Workflow[Any], delivery: Delivery, event_id: str | None) -> DeliveredSignal:
    key = event_id if delivery.idempotency_key is None else delivery.idempotency_key
    signal = workflow.signal(delivery.name, payload=delivery.payload, idempotency_key=key)
    return DeliveredSignal(
        workflow_id=workflow.id,
        signal_id=signal.id,
        name=signal.name,
        state=str(signal.state),
        duplicate=signal.duplicate_delivery,
    )


def _find(session: Session, text: str) -> Workflow[Any] | None:
    if not _WORKFLOW_ID.fullmatch(text) or int(text) > _LARGEST_ID:
        return None
    return session.get(Workflow, int(text))


def _could_take(workflow: Workflow[Any], name: str) -> bool:
    if len(name) > MAX_SIGNAL_NAME_LENGTH or not is_plain(name):
        return False
    # A row whose class is not declared here: nobody can tell, and a buffered signal is not lost.
    if type(workflow) is Workflow:
        return True
    return any(could_match_name(step.wait_for, name) for step in workflow.steps.runnable)
