"""The shop's pages: place an order, and watch it move."""

from __future__ import annotations

from flask import Blueprint, jsonify, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import select

from sample_app import timeline
from sample_app.extensions import db
from sample_app.models import Carrier, Customer, Mail, Order, OrderItem, Product
from sample_app.workflows import OrderFulfillment

shop = Blueprint("shop", __name__)


@shop.get("/")
def index() -> ResponseReturnValue:
    """What is for sale, and the latest orders."""
    orders = db.session.scalars(select(Order).order_by(Order.id.desc()).limit(20)).all()
    return render_template(
        "index.html",
        products=db.session.scalars(select(Product).order_by(Product.id)).all(),
        carriers=db.session.scalars(select(Carrier).order_by(Carrier.id)).all(),
        orders=[(order, timeline.newest_workflow(order)) for order in orders],
    )


@shop.post("/orders")
def place_order() -> ResponseReturnValue:
    """Store the order and its workflow in one transaction; the worker hears of it when both are there."""
    order = _order_from(request.form.to_dict())
    if not order.items:
        return render_template("message.html", text="Nothing was ordered: choose a quantity."), 400
    db.session.add(order)
    OrderFulfillment.create(hero=order)
    db.session.commit()
    return redirect(url_for("shop.show_order", order_id=order.id))


@shop.get("/orders/<int:order_id>")
def show_order(order_id: int) -> ResponseReturnValue:
    """One order, where it stands, and what happened so far."""
    order = db.get_or_404(Order, order_id)
    workflow = timeline.newest_workflow(order)
    mails = db.session.scalars(select(Mail).filter_by(order_id=order.id).order_by(Mail.id)).all()
    return render_template(
        "order.html",
        order=order,
        workflow=workflow,
        attempts=timeline.attempts(workflow),
        steps=timeline.steps(workflow),
        mails=mails,
    )


@shop.get("/orders/<int:order_id>.json")
def order_as_json(order_id: int) -> ResponseReturnValue:
    """The same for programs."""
    workflow = timeline.newest_workflow(db.get_or_404(Order, order_id))
    return jsonify(timeline.as_json(workflow))


@shop.post("/orders/<int:order_id>/withdraw")
def withdraw_order(order_id: int) -> ResponseReturnValue:
    """Let the customer change their mind, as long as the parcel is here."""
    order = db.get_or_404(Order, order_id)
    workflow = OrderFulfillment.ongoing_for(order)
    if workflow is None or order.tracking_code:
        return render_template("message.html", text=f"Order {order.id} is on its way already."), 409
    order.withdrawn = True
    order.release()
    workflow.cancel()
    db.session.commit()
    return redirect(url_for("shop.show_order", order_id=order.id))


@shop.post("/orders/<int:order_id>/review")
def review_order(order_id: int) -> ResponseReturnValue:
    """Take a review before the shop had to ask for it."""
    order = db.get_or_404(Order, order_id)
    order.reviewed = True
    db.session.commit()
    return redirect(url_for("shop.show_order", order_id=order.id))


@shop.post("/carriers/<int:carrier_id>")
def switch_carrier(carrier_id: int) -> ResponseReturnValue:
    """Take a carrier out of service, or bring it back."""
    carrier = db.get_or_404(Carrier, carrier_id)
    carrier.is_down = request.form.get("down") == "yes"
    db.session.commit()
    return redirect(url_for("shop.index"))


def _order_from(form: dict[str, str]) -> Order:
    products = db.session.scalars(select(Product).order_by(Product.id)).all()
    wanted = [(product, _quantity(form.get(f"quantity_{product.id}"))) for product in products]
    return Order(
        customer=_customer(form.get("name") or "Ada", form.get("email") or "ada@example.org"),
        carrier=db.get_or_404(Carrier, form.get("carrier_id", "1")),
        items=[OrderItem(product=product, quantity=quantity) for product, quantity in wanted if quantity],
    )


def _customer(name: str, email: str) -> Customer:
    known = db.session.scalars(select(Customer).filter_by(email=email)).first()
    return known or Customer(name=name, email=email)


def _quantity(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
