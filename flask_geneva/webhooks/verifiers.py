"""Verifiers: who may send to a source, by the published signature schemes of providers.

Every signature is computed over the raw body and compared as text in constant time, so that no second spelling of
a signature (padding, case, bits that base64 ignores) is taken.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from flask import Request, current_app
from standardwebhooks import Webhook

from flask_geneva.errors import ConfigurationError, GenevaError
from flask_geneva.records.scalar_values import is_plain
from flask_geneva.webhooks.bodies import MalformedRequest, parse_json
from flask_geneva.webhooks.hmac_scheme import encoder, hash_name, header_name, parts_signed, text
from flask_geneva.webhooks.secrets import Secret, SecretForm, Secrets, plain_form, standard_form, stripe_form
from flask_geneva.webhooks.sources import WebhookEvent

MAX_EVENT_ID_LENGTH = 255
FIVE_MINUTES = timedelta(minutes=5)
_UNIX_SECONDS = re.compile(r"0|[1-9][0-9]{0,10}")


class InvalidSignature(GenevaError):
    """A webhook request is not signed, wrongly signed, or too old or too new; the sender is answered 401."""


class SignatureVerifier:
    """What the verifiers of this module share: secrets and a time window."""

    def __init__(
        self, secrets: Secret | Iterable[Secret], *, form: SecretForm, tolerance: timedelta | float | None
    ) -> None:
        self._secrets = Secrets(secrets, form)
        self._tolerance = _read_tolerance(tolerance)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secrets=***)"

    def check_form(self) -> None:
        """Check the form of the secrets as far as it shows without a config."""
        self._secrets.check_form()

    def check(self, config: Mapping[str, Any]) -> None:
        """Check the secrets against the config of an application; callables are not asked."""
        self._secrets.check(config)

    def _keys(self) -> list[bytes]:
        return self._secrets.keys(current_app.config)

    def _timestamp(self, text: str, header: str) -> datetime:
        if not _UNIX_SECONDS.fullmatch(text):
            raise InvalidSignature(f"The header '{header}' holds no time in Unix seconds.")
        age = time.time() - int(text)
        if self._tolerance is not None and abs(age) > self._tolerance.total_seconds():
            raise InvalidSignature(f"The message is too {'old' if age > 0 else 'new'}.")
        return datetime.fromtimestamp(int(text), UTC)


class StandardWebhook(SignatureVerifier):
    """Verify messages of the Standard Webhooks scheme (headers ``webhook-id``, ``-timestamp``, ``-signature``)."""

    def __init__(
        self, secrets: Secret | Iterable[Secret], *, tolerance: timedelta | float | None = FIVE_MINUTES
    ) -> None:
        super().__init__(secrets, form=standard_form, tolerance=tolerance)

    def verify(self, request: Request) -> WebhookEvent:
        """Answer the event, or raise :exc:`InvalidSignature` or :exc:`MalformedRequest`."""
        event_id = _event_id(_header(request, "webhook-id"), "webhook-id")
        sent_at = self._timestamp(_header(request, "webhook-timestamp"), "webhook-timestamp")
        signatures = _header(request, "webhook-signature").split(" ")
        try:
            body = request.get_data().decode()
        except UnicodeDecodeError as error:
            raise MalformedRequest("The body is not UTF-8.") from error
        # The library's verify() fixes the tolerance, takes other spellings of time and signature for the same, and
        # raises errors of its own at malformed headers. What it signs is the scheme.
        expected = [Webhook(key).sign(event_id, sent_at, body) for key in self._keys()]
        _require_match(signatures, expected)
        return _event(request, event_id=event_id, timestamp=sent_at)


class StripeWebhook(SignatureVerifier):
    """Verify events of Stripe (header ``Stripe-Signature``); the event's id is the body's ``id``."""

    def __init__(
        self, secrets: Secret | Iterable[Secret], *, tolerance: timedelta | float | None = FIVE_MINUTES
    ) -> None:
        super().__init__(secrets, form=stripe_form, tolerance=tolerance)

    def verify(self, request: Request) -> WebhookEvent:
        """Answer the event, or raise :exc:`InvalidSignature` or :exc:`MalformedRequest`."""
        parts = [part.partition("=") for part in _header(request, "Stripe-Signature").split(",")]
        times = [value for key, _, value in parts if key == "t"]
        if len(times) != 1:
            raise InvalidSignature("The header 'Stripe-Signature' does not hold one time.")
        sent_at = self._timestamp(times[0], "Stripe-Signature")
        signed = times[0].encode() + b"." + request.get_data()
        expected = [hmac.new(key, signed, "sha256").hexdigest() for key in self._keys()]
        _require_match([value for key, _, value in parts if key == "v1"], expected)
        event = _event(request, timestamp=sent_at)
        return replace(event, id=_id_in_body(event.data))


class HmacWebhook(SignatureVerifier):
    """Verify a plain HMAC of the raw body in one header, as most providers send it.

    Several signatures in the header are separated by commas or spaces. Without ``id_header`` events have no id, and
    redeliveries are not recognised. ``signed`` says what the HMAC covers; ``{timestamp}`` in it stands for the text
    of the timestamp header, which is otherwise not protected by the signature.
    """

    def __init__(
        self,
        secrets: Secret | Iterable[Secret],
        header: str,
        algorithm: str = "sha256",
        encoding: str = "hex",
        prefix: str = "",
        id_header: str | None = None,
        timestamp_header: str | None = None,
        *,
        signed: str = "{body}",
        tolerance: timedelta | float | None = FIVE_MINUTES,
    ) -> None:
        super().__init__(secrets, form=plain_form, tolerance=tolerance)
        self._header = header_name(header, "header")
        self._algorithm = hash_name(algorithm)
        self._encode = encoder(encoding)
        self._prefix = text(prefix, "prefix")
        self._id_header = None if id_header is None else header_name(id_header, "id_header")
        self._timestamp_header = None if timestamp_header is None else header_name(timestamp_header, "timestamp_header")
        self._signed = parts_signed(signed, timestamp_header)

    def verify(self, request: Request) -> WebhookEvent:
        """Answer the event, or raise :exc:`InvalidSignature` or :exc:`MalformedRequest`."""
        header = _header(request, self._header)
        sent = _header(request, self._timestamp_header) if self._timestamp_header else ""
        sent_at = self._timestamp(sent, self._timestamp_header) if self._timestamp_header else None
        message = b"".join(self._part(part, sent, request) for part in self._signed)
        digests = [hmac.new(key, message, self._algorithm).digest() for key in self._keys()]
        # The whole header too, for a prefix with a space in it.
        signatures = [header, *re.split(r"[, ]+", header)]
        _require_match(signatures, [self._prefix + self._encode(digest) for digest in digests])
        return self._read(request, sent_at)

    def _part(self, part: str, sent: str, request: Request) -> bytes:
        if part == "{body}":
            return request.get_data()
        return (sent if part == "{timestamp}" else part).encode()

    def _read(self, request: Request, sent_at: datetime | None) -> WebhookEvent:
        name = self._id_header
        event_id = _event_id(_header(request, name), name) if name else None
        return _event(request, event_id=event_id, timestamp=sent_at)


class GitHubWebhook(HmacWebhook):
    """Verify deliveries of GitHub (header ``X-Hub-Signature-256``); the event's type is ``X-GitHub-Event``.

    GitHub signs neither a time nor the id in ``X-GitHub-Delivery``: whoever could record a delivery could send it
    again under another id.
    """

    def __init__(
        self, secrets: Secret | Iterable[Secret], *, tolerance: timedelta | float | None = FIVE_MINUTES
    ) -> None:
        super().__init__(secrets, "X-Hub-Signature-256", prefix="sha256=", tolerance=tolerance)

    def _read(self, request: Request, sent_at: datetime | None) -> WebhookEvent:
        delivery_id = request.headers.get("X-GitHub-Delivery")
        return _event(
            request,
            event_id=_event_id(delivery_id, "X-GitHub-Delivery") if delivery_id is not None else None,
            type=request.headers.get("X-GitHub-Event"),
        )


def _event(
    request: Request,
    *,
    event_id: str | None = None,
    timestamp: datetime | None = None,
    type: str | None = None,
) -> WebhookEvent:
    """Make the event of a request whose signature is right."""
    data = parse_json(request.get_data())
    return WebhookEvent(
        id=event_id,
        timestamp=timestamp,
        type=type if type is not None else _member(data, "type"),
        data=data,
        headers=request.headers,
        body=request.get_data(),
    )


def _member(data: object, name: str) -> str | None:
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, str) else None


def _id_in_body(data: object) -> str | None:
    event_id = _member(data, "id")
    if event_id is not None and not _may_be_id(event_id):
        raise MalformedRequest(f"The body's 'id' is not a text of 1 to {MAX_EVENT_ID_LENGTH} characters.")
    return event_id


def _header(request: Request, name: str) -> str:
    value = request.headers.get(name)
    if not value:
        raise InvalidSignature(f"The header '{name}' is missing or empty.")
    return value


def _event_id(text: str, header: str) -> str:
    if not _may_be_id(text):
        raise InvalidSignature(f"The header '{header}' holds no id of 1 to {MAX_EVENT_ID_LENGTH} characters.")
    return text


def _may_be_id(text: str) -> bool:
    return 0 < len(text) <= MAX_EVENT_ID_LENGTH and is_plain(text)


def _require_match(signatures: Iterable[str], expected: Iterable[str]) -> None:
    sent = [signature.encode("utf-8", "replace") for signature in signatures]
    # Every pair is compared, so that the time tells nothing about which secret it was.
    matches = [hmac.compare_digest(one.encode(), other) for one in expected for other in sent]
    if not any(matches):
        raise InvalidSignature("No signature of the request matches.")


def _read_tolerance(value: timedelta | float | None) -> timedelta | None:
    if value is None or (isinstance(value, timedelta) and value >= timedelta()):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0:
        return timedelta(seconds=value)
    raise ConfigurationError(
        f"Cannot use tolerance={value!r}. Pass a timedelta or seconds, not negative, or None for no time window."
    )
