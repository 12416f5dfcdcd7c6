"""Refusals and failures as ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flask import Response, json
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import HTTPException, MethodNotAllowed, RequestEntityTooLarge

from flask_geneva.errors import GenevaError, MigrationMissing, SignalPayloadTooLarge, WorkflowNotOngoing
from flask_geneva.webhooks.bodies import MalformedRequest
from flask_geneva.webhooks.verifiers import InvalidSignature

RETRY_AFTER_SECONDS = 30


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What went wrong, in words for the sender: nothing of it tells of secrets or of the inside of the application."""

    slug: str
    title: str
    status: int
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def answer(self) -> Response:
        """Make the response."""
        members = {
            "type": f"urn:flask-geneva:problem:{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        return Response(json.dumps(members), self.status, self.headers, content_type="application/problem+json")


class TargetMissing(GenevaError):
    """A webhook request is for a source, a workflow or a signal that does not exist; the sender is answered 404."""


class NotJson(GenevaError):
    """A webhook request's content type is not JSON; the sender is answered 415."""


def problem_of(error: Exception) -> Problem:
    """Answer what the sender is told about an error; what is not known is a failure of ours, without details."""
    for kinds, slug, title, status, headers in _REFUSALS:
        if isinstance(error, kinds):
            return Problem(slug=slug, title=title, status=status, detail=_detail(error), headers=headers)
    if isinstance(error, DBAPIError | PoolTimeout | MigrationMissing):
        return _UNAVAILABLE
    if isinstance(error, HTTPException) and error.code is not None and error.code >= 400:
        return _aborted(error, error.code)
    return _FAILED


ALLOWED = {"Allow": "POST, OPTIONS"}
_CHALLENGE = {"WWW-Authenticate": 'Webhook-Signature realm="webhooks"'}
_NONE: Mapping[str, str] = {}

_REFUSALS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str, str, int, Mapping[str, str]], ...] = (
    (InvalidSignature, "invalid-signature", "The request is not signed as it must be", 401, _CHALLENGE),
    (MalformedRequest, "malformed-request", "The request cannot be read", 400, _NONE),
    (MethodNotAllowed, "method-not-allowed", "Method not allowed", 405, ALLOWED),
    (NotJson, "not-json", "The content type is not JSON", 415, {"Accept": "application/json"}),
    ((RequestEntityTooLarge, SignalPayloadTooLarge), "too-large", "The payload is too large", 413, _NONE),
    (TargetMissing, "not-found", "There is nothing to deliver to", 404, _NONE),
    (WorkflowNotOngoing, "workflow-ended", "The workflow takes no more signals", 409, _NONE),
)
_UNAVAILABLE = Problem(
    slug="unavailable",
    title="The database did not answer as it should",
    status=503,
    detail="Nothing was stored. Send the request again later.",
    headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
)
_FAILED = Problem(
    slug="failed",
    title="The event could not be handled",
    status=500,
    detail="Nothing was stored, and the error was reported. Send the request again later.",
)


def _aborted(error: HTTPException, status: int) -> Problem:
    # Such as Retry-After; the body that the content type is for is not sent.
    headers = {name: text for name, text in error.get_headers() if name.lower() != "content-type"}
    return Problem(
        slug="refused", title=error.name, status=status, detail=error.description or error.name, headers=headers
    )


def _detail(error: Exception) -> str:
    # The texts of these two advise the developer, not the sender.
    if isinstance(error, RequestEntityTooLarge | SignalPayloadTooLarge):
        return "The body, or the payload that it makes, is above the limit; nothing was stored."
    if isinstance(error, MethodNotAllowed):
        return "Webhooks are sent with POST."
    if isinstance(error, WorkflowNotOngoing):
        return f"Workflow #{error.workflow_id} is {error.state}; signal '{error.signal_name}' was not stored."
    return str(error)
