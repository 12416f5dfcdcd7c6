"""Where the payment provider tells the shop what happened: its event becomes a signal to the order's workflow."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, jsonify, request
from flask.typing import ResponseReturnValue

from flask_geneva import WorkflowNotOngoing
from sample_app.extensions import db
from sample_app.models import Order
from sample_app.timeline import newest_workflow
from sample_app.workflows import OrderFulfillment

payments = Blueprint("payments", __name__)


@payments.post("/payments")
def payment_event() -> ResponseReturnValue:
    """Take one event; the provider sends it again, with the same id, until it is answered with success."""
    event = request.get_json()
    if event["type"] != "payment.confirmed":
        return "", 204
    workflow = _workflow_of(event["data"])
    if workflow is None:
        return jsonify(error="no such order"), 404
    try:
        signal = workflow.signal(
            "payment_confirmed", {"amount_cents": event["data"]["amount_cents"]}, idempotency_key=event["id"]
        )
    except WorkflowNotOngoing as error:
        return jsonify(error=str(error)), 409
    db.session.commit()
    return jsonify(signal_id=signal.id, duplicate=signal.duplicate_delivery), 200 if signal.duplicate_delivery else 202


def _workflow_of(payment: dict[str, Any]) -> OrderFulfillment | None:
    """The workflow of the order, also when it has ended: a redelivery may come as late as it likes."""
    order = db.session.get(Order, payment["order_id"])
    return newest_workflow(order) if order else None
