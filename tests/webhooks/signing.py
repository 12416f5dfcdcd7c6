"""Signatures made from the providers' published schemes, with nothing of the package in them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

Headers = dict[str, str]


def standard_headers(body: bytes, *, secret: str = SECRET, id: str = "msg_1", sent_at: int | None = None) -> Headers:
    """Sign as the specification of Standard Webhooks says."""
    seconds = int(time.time()) if sent_at is None else sent_at
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{id}.{seconds}.".encode() + body, hashlib.sha256)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }


def stripe_headers(body: bytes, *, secret: str = "whsec_stripe", sent_at: int | None = None) -> Headers:
    """Sign as Stripe's documentation of manual verification says."""
    seconds = int(time.time()) if sent_at is None else sent_at
    digest = hmac.digest(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256)
    return {"Stripe-Signature": f"t={seconds},v1={digest.hex()},v0={'0' * 64}"}


def github_headers(body: bytes, *, secret: str = "It's a Secret to Everybody", id: str = "72d3162e") -> Headers:
    """Sign as GitHub's documentation of webhook deliveries says."""
    digest = hmac.digest(secret.encode(), body, hashlib.sha256)
    return {"X-Hub-Signature-256": f"sha256={digest.hex()}", "X-GitHub-Event": "push", "X-GitHub-Delivery": id}
