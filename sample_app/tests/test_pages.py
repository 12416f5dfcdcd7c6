"""The shop's pages, as a browser and as ``make demo`` see them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from flask_geneva.testing import perform_next_step, speedrun
from sample_app.models import CarrierUnavailable, Order
from sample_app.provider import PATH, TEST_SECRET, signed
from sample_app.workflows import OrderFulfillment

PlaceOrder = Callable[..., tuple[Order, OrderFulfillment]]


def test_the_front_page_shows_goods_and_orders(client: FlaskClient, place_order: PlaceOrder) -> None:
    order, _ = place_order()

    page = client.get("/").text

    assert "Notebook" in page
    assert f'href="/orders/{order.id}"' in page


def test_an_order_of_nothing_is_refused(client: FlaskClient) -> None:
    answer = client.post("/orders", data={"quantity_1": "0"})

    assert answer.status_code == 400
    assert "choose a quantity" in answer.text


def test_the_page_of_an_order_says_where_it_stands(client: FlaskClient, place_order: PlaceOrder) -> None:
    order, workflow = place_order()
    perform_next_step(workflow)
    perform_next_step(workflow)

    page = client.get(f"/orders/{order.id}").text

    assert "waiting for signal" in page
    assert '<li class="completed" title="completed">reserve stock</li>' in page
    assert '<li class="to come" title="to come">ship</li>' in page


def test_the_page_of_a_paused_order_shows_the_error_and_the_command_that_resumes_it(
    client: FlaskClient, place_order: PlaceOrder
) -> None:
    order, workflow = place_order(carrier_id=2)
    workflow.signal("payment_confirmed", {"amount_cents": order.total_cents})
    with pytest.raises(CarrierUnavailable):
        speedrun(workflow)

    page = client.get(f"/orders/{order.id}").text

    assert "CarrierUnavailable: Turtle Express does not take the parcel" in page
    assert f"geneva resume {workflow.id}" in page


def test_the_timeline_is_there_for_programs(client: FlaskClient, place_order: PlaceOrder) -> None:
    order, workflow = place_order()
    perform_next_step(workflow)

    timeline = client.get(f"/orders/{order.id}.json").get_json()

    assert timeline["workflow_id"] == workflow.id
    assert timeline["state"] == "ready"
    assert [attempt["sentence"] for attempt in timeline["attempts"]] == [
        "reserve stock completed",
        "capture payment scheduled",
    ]


def test_an_unknown_order_is_not_found(client: FlaskClient) -> None:
    assert client.get("/orders/77").status_code == 404
    assert client.post("/provider/checkout/77").status_code == 404
    payment = {"id": "e", "type": "payment.confirmed", "data": {"order_id": 77, "amount_cents": 1}}
    body, headers = signed(payment, TEST_SECRET)
    assert client.post(PATH, data=body, headers=headers).status_code == 404
