"""The delivery log: one row for each request to a webhook source, also for the refused ones.

``geneva_webhook_deliveries`` hangs together with nothing: its rows outlive the workflows and signals that they name.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Index, Integer, MetaData, SmallInteger, String, Table, delete, select
from sqlalchemy.orm import Session, defer
from sqlalchemy.sql.elements import conv
from werkzeug.datastructures import Headers

from flask_geneva.engine.runtime import Perishables
from flask_geneva.records.base import Base, Key, LongBinary, StateColumn, UTCDateTime
from flask_geneva.records.json_column import JSONColumn
from flask_geneva.records.scalar_values import is_plain
from flask_geneva.records.tables import copy_for_ddl, is_made_for

if TYPE_CHECKING:
    from sqlalchemy.orm import Mapped

REASON_LENGTH = 500
_TEXT_LENGTH = 255
_TELLING_HEADER = re.compile("auth|cookie|token|secret|signature|hmac|password|key", re.IGNORECASE)


class DeliveryOutcome(StrEnum):
    """What became of a request to a source."""

    DELIVERED = "delivered"
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    REFUSED = "refused"
    FAILED = "failed"


webhook_deliveries = Table(
    "geneva_webhook_deliveries",
    Base.metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("source", String(_TEXT_LENGTH), nullable=False),
    Column("event_id", String(_TEXT_LENGTH)),
    Column("event_type", String(_TEXT_LENGTH)),
    Column("outcome", StateColumn(DeliveryOutcome), nullable=False),
    Column("http_status", SmallInteger, nullable=False),
    Column("reason", String(REASON_LENGTH)),
    Column("workflow_id", Key),
    Column("signal_id", Key),
    Column("signal_name", String(_TEXT_LENGTH)),
    Column("signals", JSONColumn(none_as_null=True)),
    Column("sent_at", UTCDateTime),
    Column("received_at", UTCDateTime, nullable=False),
    Column("body_hash", String(64)),
    Column("body_size", Integer),
    Column("body", LongBinary),
    Column("headers", JSONColumn(none_as_null=True)),
    Column("replay_of_id", Key),
    Index(conv("ix_geneva_webhook_deliveries_received_at"), "received_at"),
    Index(conv("ix_geneva_webhook_deliveries_source_received_at"), "source", "received_at"),
    Index(conv("ix_geneva_webhook_deliveries_outcome_received_at"), "outcome", "received_at"),
)


class WebhookDelivery(Base):
    """One request to a webhook source, and what became of it.

    ``workflow_id``, ``signal_id`` and ``signal_name`` are those of the first signal, ``signals`` lists all where
    there were several. Body and headers are kept when ``GENEVA_WEBHOOK_KEEP_BODIES`` says so and the request was
    verified.
    """

    __table__ = webhook_deliveries

    if TYPE_CHECKING:
        id: Mapped[int]
        source: Mapped[str]
        event_id: Mapped[str | None]
        event_type: Mapped[str | None]
        outcome: Mapped[DeliveryOutcome]
        http_status: Mapped[int]
        reason: Mapped[str | None]
        workflow_id: Mapped[int | None]
        signal_id: Mapped[int | None]
        signal_name: Mapped[str | None]
        signals: Mapped[list[dict[str, Any]] | None]
        sent_at: Mapped[datetime | None]
        received_at: Mapped[datetime]
        body_hash: Mapped[str | None]
        body_size: Mapped[int | None]
        body: Mapped[bytes | None]
        headers: Mapped[dict[str, str] | None]
        replay_of_id: Mapped[int | None]


def register_table(metadata: MetaData, dialect_name: str) -> Table:
    """Make the table known to an application's metadata, for its DDL; a second call changes nothing."""
    known = metadata.tables.get(webhook_deliveries.name)
    if known is not None and is_made_for(known, dialect_name):
        return known
    if known is not None:
        metadata.remove(known)
    return copy_for_ddl(webhook_deliveries, metadata, dialect_name)


def outcome_of(status: int) -> DeliveryOutcome:
    """Answer what an HTTP status of ours says of the event."""
    if status >= 500:
        return DeliveryOutcome.FAILED
    if status >= 400:
        return DeliveryOutcome.REFUSED
    return {200: DeliveryOutcome.DUPLICATE, 204: DeliveryOutcome.IGNORED}.get(status, DeliveryOutcome.DELIVERED)


def fingerprint(body: bytes | None) -> dict[str, Any]:
    """Answer the columns that tell of a body without keeping it; there is none where it was not read."""
    return {} if body is None else {"body_hash": sha256(body).hexdigest(), "body_size": len(body)}


def keepable_headers(headers: Headers) -> dict[str, str]:
    """Answer the headers that a replay gives to the handler: all but those that may hold something secret."""
    return {name: storable(text, None) for name, text in headers.items() if not _TELLING_HEADER.search(name)}


def storable(text: str, length: int | None = _TEXT_LENGTH) -> str:
    """Cut a text to what a column holds, and replace what a database refuses."""
    text = text[:length]
    return text if is_plain(text) else text.encode("utf-8", "replace").decode().replace("\0", "?")


def latest(session: Session, *, source: str | None, outcome: str | None, limit: int) -> list[WebhookDelivery]:
    """Answer the newest rows first, without their bodies."""
    newest_first = (WebhookDelivery.received_at.desc(), WebhookDelivery.id.desc())
    rows = select(WebhookDelivery).options(defer(WebhookDelivery.body)).order_by(*newest_first).limit(limit)
    if source is not None:
        rows = rows.where(WebhookDelivery.source == source)
    if outcome is not None:
        rows = rows.where(WebhookDelivery.outcome == outcome)
    return list(session.scalars(rows))


def delete_older_than(session: Session, moment: datetime, limit: int) -> int:
    """Delete at most so many rows that were received before a moment; answer how many there were."""
    old = select(webhook_deliveries.c.id).where(webhook_deliveries.c.received_at < moment)
    ids = session.scalars(old.order_by(webhook_deliveries.c.received_at).limit(limit)).all()
    if ids:
        session.execute(delete(webhook_deliveries).where(webhook_deliveries.c.id.in_(ids)))
    return len(ids)


# Named as the field of housekeeping's summary is.
PERISHABLES = Perishables(field="webhook_deliveries_cleaned_up", delete_older_than=delete_older_than)
