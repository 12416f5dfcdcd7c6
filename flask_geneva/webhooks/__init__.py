"""Webhooks: HTTP requests of providers and of the application's own services become signals."""

from flask_geneva.webhooks.bodies import MalformedRequest
from flask_geneva.webhooks.sources import Delivery, Verifier, WebhookEvent
from flask_geneva.webhooks.verifiers import (
    GitHubWebhook,
    HmacWebhook,
    InvalidSignature,
    StandardWebhook,
    StripeWebhook,
)

__all__ = [
    "Delivery",
    "GitHubWebhook",
    "HmacWebhook",
    "InvalidSignature",
    "MalformedRequest",
    "StandardWebhook",
    "StripeWebhook",
    "Verifier",
    "WebhookEvent",
]
