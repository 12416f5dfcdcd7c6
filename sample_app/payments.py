"""Where the payment provider tells the shop what happened: its event becomes a signal to the order's workflow."""

from __future__ import annotations

from flask_geneva.webhooks import Delivery, StandardWebhook, WebhookEvent
from sample_app.extensions import db, geneva
from sample_app.models import Order
from sample_app.timeline import newest_workflow


@geneva.webhook("payments", StandardWebhook("PAYMENT_WEBHOOK_SECRET"))
def payment_event(event: WebhookEvent) -> Delivery | None:
    """Take one event, whose signature was verified; the provider sends it again until it is answered with success."""
    if event.type != "payment.confirmed":
        return None
    payment = event.data["data"]
    order = db.session.get(Order, payment["order_id"])
    # The newest workflow, also one that has ended: a redelivery may come as late as it likes.
    workflow = None if order is None else newest_workflow(order)
    return Delivery(workflow, "payment_confirmed", payload={"amount_cents": payment["amount_cents"]})
