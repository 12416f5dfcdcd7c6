"""What is known of one request to a source while it is handled, and the row that it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from werkzeug.datastructures import Headers

from flask_geneva.webhooks.delivery_log import (
    REASON_LENGTH,
    DeliveryOutcome,
    fingerprint,
    keepable_headers,
    outcome_of,
    storable,
)
from flask_geneva.webhooks.problems import Problem
from flask_geneva.webhooks.receiving import Receipt
from flask_geneva.webhooks.sources import WebhookEvent


@dataclass(kw_only=True)
class Reception:
    """A request to a source, or a replay of one; filled in as it gets on. Without a source: the built-in endpoint."""

    source: str | None
    received_at: datetime
    body: bytes | None = None
    event: WebhookEvent | None = None
    receipt: Receipt | None = None
    problem: Problem | None = None
    error: Exception | None = None
    replay_of_id: int | None = None

    def __str__(self) -> str:
        return "the built-in signal endpoint" if self.source is None else f"webhook source '{self.source}'"

    @property
    def http_status(self) -> int:
        """Answer the status that the sender got."""
        if self.problem is not None:
            return self.problem.status
        return 500 if self.receipt is None else self.receipt.status

    @property
    def outcome(self) -> DeliveryOutcome:
        """Answer what became of the request."""
        return outcome_of(self.http_status)

    @property
    def reason(self) -> str | None:
        """Answer why there was no delivery: our own error in full, a refusal as the sender was told it."""
        if self.problem is None:
            return None
        if self.http_status >= 500:
            # The further lines of a database error hold the statement and its parameters.
            first_line, *_ = str(self.error).splitlines() or [""]
            return storable(f"{type(self.error).__name__}: {first_line}", REASON_LENGTH)
        return storable(self.problem.detail, REASON_LENGTH)

    def row(self, *, keep_body: bool) -> dict[str, Any]:
        """Answer the columns of the row; body and headers only of what was verified, and where they are wanted."""
        return {
            "source": self.source,
            "outcome": self.outcome,
            "http_status": self.http_status,
            "reason": self.reason,
            "received_at": self.received_at,
            "replay_of_id": self.replay_of_id,
            **fingerprint(self.body),
            **self._event_columns(keep_body),
            **self._signal_columns(),
        }

    def _event_columns(self, keep_body: bool) -> dict[str, Any]:
        event = self.event
        if event is None:
            return {}
        columns: dict[str, Any] = {
            "event_id": None if event.id is None else storable(str(event.id)),
            "event_type": None if event.type is None else storable(str(event.type)),
            "sent_at": event.timestamp,
        }
        if keep_body:
            columns |= {"body": self.body, "headers": keepable_headers(Headers(event.headers))}
        return columns

    def _signal_columns(self) -> dict[str, Any]:
        if self.receipt is None or not self.receipt.signals:
            return {}
        first, *others = self.receipt.signals
        return {
            "workflow_id": first.workflow_id,
            "signal_id": first.signal_id,
            "signal_name": first.name,
            "signals": [{"workflow_id": each.workflow_id, **each.as_json()} for each in self.receipt.signals]
            if others
            else None,
        }
