"""A fake payment provider with the manners of the real ones: it delivers late, out of order, and more than once.

``python -m sample_app.provider http://127.0.0.1:5000 7 2490 --times 2`` pays order 7.
"""

from __future__ import annotations

import argparse
import json
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, current_app, redirect, request, url_for
from flask.typing import ResponseReturnValue
from standardwebhooks import Webhook

from sample_app.extensions import db
from sample_app.models import Order

# Known to everybody, and so fit for a sample only.
TEST_SECRET = "whsec_c2FtcGxlIHNob3AsIHNhbXBsZSBzZWNyZXQ="
PATH = "/geneva/webhooks/payments"

Event = dict[str, Any]
Deliver = Callable[[bytes, dict[str, str]], int]

provider = Blueprint("provider", __name__, url_prefix="/provider")


@provider.post("/checkout/<int:order_id>")
def checkout(order_id: int) -> ResponseReturnValue:
    """Pay an order; the shop hears of it in a request of its own, as from any provider."""
    order = db.get_or_404(Order, order_id)
    arguments = (over_http(request.host_url), order.id, order.total_cents, request.form.get("times", 1, type=int))
    secret = current_app.config["PAYMENT_WEBHOOK_SECRET"]
    threading.Thread(target=pay, args=arguments, kwargs={"secret": secret}, daemon=True).start()
    return redirect(url_for("shop.show_order", order_id=order.id))


def pay(deliver: Deliver, order_id: int, amount_cents: int, times: int = 1, *, secret: str = TEST_SECRET) -> list[int]:
    """Pay an order and tell the shop, ``times`` times, the later event first; the shop's answers."""
    created, confirmed = (_event(kind, order_id, amount_cents) for kind in ("payment.created", "payment.confirmed"))
    return [deliver(*signed(event, secret)) for event in [confirmed, created] * times]


def signed(event: Event, secret: str) -> tuple[bytes, dict[str, str]]:
    """Write an event as the body and the headers of the Standard Webhooks scheme; a redelivery keeps its id."""
    body, now = json.dumps(event), datetime.now(UTC)
    headers = {
        "Content-Type": "application/json",
        "webhook-id": event["id"],
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(event["id"], now, body),
    }
    return body.encode(), headers


def over_http(shop: str) -> Deliver:
    """Deliver events to a shop's address."""

    def deliver(body: bytes, headers: dict[str, str]) -> int:
        delivery = urllib.request.Request(f"{shop.rstrip('/')}{PATH}", body, headers)
        try:
            with urllib.request.urlopen(delivery, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code

    return deliver


def _event(kind: str, order_id: int, amount_cents: int) -> Event:
    return {
        "id": f"evt_{uuid.uuid4().hex}",
        "type": kind,
        "data": {"order_id": order_id, "amount_cents": amount_cents},
    }


def main() -> None:
    """Pay one order of a running shop."""
    parser = argparse.ArgumentParser(description="Pays an order of a running shop.")
    parser.add_argument("shop", help="its address, such as http://127.0.0.1:5000")
    parser.add_argument("order_id", type=int)
    parser.add_argument("amount_cents", type=int)
    parser.add_argument("--times", type=int, default=1, help="how often each event is delivered")
    asked = parser.parse_args()
    print(*pay(over_http(asked.shop), asked.order_id, asked.amount_cents, asked.times))


if __name__ == "__main__":
    main()
