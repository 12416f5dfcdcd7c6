"""The workflow of an order, run in milliseconds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select

from flask_geneva.testing import (
    WaitingForSignal,
    assert_step_executed,
    assert_waiting_for_signal,
    assert_workflow_state,
    expire_wait,
    perform_next_step,
    speedrun,
)
from sample_app.extensions import db
from sample_app.models import Carrier, CarrierUnavailable, Mail, Order, OutOfStock, Product
from sample_app.provider import PATH, TEST_SECRET, pay
from sample_app.workflows import OrderFulfillment

PlaceOrder = Callable[..., tuple[Order, OrderFulfillment]]


def confirm(
    client: FlaskClient, order: Order, times: int = 1, amount_cents: int | None = None, secret: str = TEST_SECRET
) -> list[int]:
    """Let the provider pay the order; the shop's answers."""

    def deliver(body: bytes, headers: dict[str, str]) -> int:
        return client.post(PATH, data=body, headers=headers).status_code

    return pay(deliver, order.id, amount_cents or order.total_cents, times, secret=secret)


def test_an_order_waits_for_its_payment(place_order: PlaceOrder) -> None:
    order, workflow = place_order()

    with pytest.raises(WaitingForSignal, match="payment_confirmed"):
        speedrun(workflow)

    assert_waiting_for_signal(workflow, "payment_confirmed")
    assert (order.reserved, order.paid_cents) == (True, 0)


def test_a_paid_order_is_shipped_and_its_customer_asked(client: FlaskClient, place_order: PlaceOrder) -> None:
    order, workflow = place_order(quantity_1=2, quantity_3=1)

    confirm(client, order)
    speedrun(workflow)

    assert_workflow_state(workflow, "finished")
    assert order.paid_cents == 2 * 1290 + 850
    assert order.tracking_code
    assert db.session.scalars(select(Mail.recipient).order_by(Mail.id)).all() == [
        "orders@alpine-paper.example",
        "orders@lakeside-ink.example",
        "ada@example.org",
    ]


def test_a_payment_told_twice_and_out_of_order_is_captured_once(client: FlaskClient, place_order: PlaceOrder) -> None:
    order, workflow = place_order()

    answers = confirm(client, order, times=2)
    speedrun(workflow)

    assert answers == [202, 204, 200, 204]
    assert len(workflow.signals) == 1
    assert confirm(client, order) == [409, 204]


def test_a_payment_that_nobody_signed_is_refused(client: FlaskClient, place_order: PlaceOrder) -> None:
    order, workflow = place_order()

    answers = confirm(client, order, secret="whsec_" + "b" * 32)

    assert answers == [401, 401]
    assert workflow.signals == []


def test_a_payment_of_another_amount_waits_for_a_person(client: FlaskClient, place_order: PlaceOrder) -> None:
    order, workflow = place_order()

    confirm(client, order, amount_cents=1)
    speedrun(workflow, raise_errors=False)

    assert_workflow_state(workflow, "paused")
    assert order.paid_cents == 0


def test_an_order_that_is_never_paid_gives_its_goods_back(place_order: PlaceOrder) -> None:
    _, workflow = place_order(quantity_1=3)
    with pytest.raises(WaitingForSignal):
        speedrun(workflow)

    expire_wait(workflow)
    perform_next_step(workflow)

    assert_workflow_state(workflow, "canceled")
    assert db.session.get_one(Product, 1).stock == 100


def test_an_order_of_more_than_there_is_is_canceled(place_order: PlaceOrder) -> None:
    order, workflow = place_order(quantity_4=2)

    with pytest.raises(OutOfStock, match="2 Gold ink, 1 are left"):
        speedrun(workflow)

    assert_workflow_state(workflow, "canceled")
    assert not order.reserved


def test_a_broken_carrier_pauses_the_order_until_a_person_resumes_it(
    client: FlaskClient, place_order: PlaceOrder
) -> None:
    order, workflow = place_order(carrier_id=2)
    confirm(client, order)
    with pytest.raises(CarrierUnavailable):
        speedrun(workflow)
    assert_workflow_state(workflow, "paused")

    client.post("/carriers/2", data={"down": "no"})
    workflow.resume()
    speedrun(workflow)

    assert not db.session.get_one(Carrier, 2).is_down
    assert_step_executed(workflow, "ship", "failed")
    assert_step_executed(workflow, "ship")
    assert_workflow_state(workflow, "finished")


def test_a_withdrawn_order_is_canceled_and_its_goods_are_back(client: FlaskClient, place_order: PlaceOrder) -> None:
    order, workflow = place_order()
    perform_next_step(workflow)

    answer = client.post(f"/orders/{order.id}/withdraw")

    assert answer.status_code == 302
    assert_workflow_state(workflow, "canceled")
    assert db.session.get_one(Product, 1).stock == 100


def test_a_customer_who_reviewed_is_not_asked_to(client: FlaskClient, place_order: PlaceOrder) -> None:
    order, workflow = place_order()
    client.post(f"/orders/{order.id}/review")

    confirm(client, order)
    speedrun(workflow)

    assert_step_executed(workflow, "ask_for_review", "skipped")
    assert "ada@example.org" not in db.session.scalars(select(Mail.recipient)).all()
