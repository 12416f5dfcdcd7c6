"""A fake payment provider with the manners of the real ones: it delivers late, out of order, and more than once.

``python -m sample_app.provider http://127.0.0.1:5000 7 2490 --times 2`` pays order 7.
"""

from __future__ import annotations

import argparse
import json
import threading
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

from flask import Blueprint, redirect, request, url_for
from flask.typing import ResponseReturnValue

from sample_app.extensions import db
from sample_app.models import Order

Event = dict[str, Any]
Deliver = Callable[[Event], int]

provider = Blueprint("provider", __name__, url_prefix="/provider")


@provider.post("/checkout/<int:order_id>")
def checkout(order_id: int) -> ResponseReturnValue:
    """Pay an order; the shop hears of it in a request of its own, as from any provider."""
    order = db.get_or_404(Order, order_id)
    arguments = (over_http(request.host_url), order.id, order.total_cents, request.form.get("times", 1, type=int))
    threading.Thread(target=pay, args=arguments, daemon=True).start()
    return redirect(url_for("shop.show_order", order_id=order.id))


def pay(deliver: Deliver, order_id: int, amount_cents: int, times: int = 1) -> list[int]:
    """Pay an order and tell the shop, ``times`` times, the later event first; the shop's answers."""
    created, confirmed = (_event(kind, order_id, amount_cents) for kind in ("payment.created", "payment.confirmed"))
    return [deliver(event) for event in [confirmed, created] * times]


def over_http(shop: str) -> Deliver:
    """Deliver events to a shop's address."""

    def deliver(event: Event) -> int:
        headers = {"Content-Type": "application/json"}
        delivery = urllib.request.Request(f"{shop.rstrip('/')}/payments", json.dumps(event).encode(), headers)
        with urllib.request.urlopen(delivery, timeout=10) as answer:
            return int(answer.status)

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
