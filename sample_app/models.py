"""What the shop stores. Nothing here knows about workflows."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from sample_app.extensions import Base, db

if TYPE_CHECKING:
    Model = Base
else:
    Model = db.Model


class OutOfStock(Exception):
    """There is less of a product than was ordered."""


class CarrierUnavailable(Exception):
    """The carrier does not take parcels at the moment."""


class WrongAmount(Exception):
    """The provider confirmed another amount than the order costs."""


class Customer(Model):
    """Who buys."""

    __tablename__ = "customers"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    email: Mapped[str] = mapped_column(String(200), unique=True)


class Supplier(Model):
    """Who fills the shelf again."""

    __tablename__ = "suppliers"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    email: Mapped[str] = mapped_column(String(200))


class Product(Model):
    """What is for sale."""

    __tablename__ = "products"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    price_cents: Mapped[int]
    stock: Mapped[int] = mapped_column(default=0)
    supplier_id: Mapped[int] = mapped_column(ForeignKey("suppliers.id"))
    supplier: Mapped[Supplier] = relationship()


class Carrier(Model):
    """Who brings the parcel, unless it is out of order."""

    __tablename__ = "carriers"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    is_down: Mapped[bool] = mapped_column(default=False)

    def accept(self, order: Order) -> str:
        """Take a parcel and return its tracking code."""
        if self.is_down:
            raise CarrierUnavailable(f"{self.name} does not take the parcel of order {order.id}: it is out of service.")
        return f"{self.name[:2].upper()}-{secrets.token_hex(4)}"


class Order(Model):
    """What a customer bought; the hero of the workflow."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey("customers.id"))
    carrier_id: Mapped[int] = mapped_column(ForeignKey("carriers.id"))
    reserved: Mapped[bool] = mapped_column(default=False)
    paid_cents: Mapped[int] = mapped_column(default=0)
    tracking_code: Mapped[str | None] = mapped_column(String(50))
    withdrawn: Mapped[bool] = mapped_column(default=False)
    reviewed: Mapped[bool] = mapped_column(default=False)
    customer: Mapped[Customer] = relationship()
    carrier: Mapped[Carrier] = relationship()
    items: Mapped[list[OrderItem]] = relationship(back_populates="order", order_by="OrderItem.id")

    @property
    def total_cents(self) -> int:
        """What the customer has to pay."""
        return sum(item.quantity * item.product.price_cents for item in self.items)

    def reserve(self) -> None:
        """Take the goods off the shelf."""
        for item in self.items:
            if item.product.stock < item.quantity:
                raise OutOfStock(
                    f"Order {self.id} wants {item.quantity} {item.product.name}, {item.product.stock} are left."
                )
            item.product.stock = Product.stock - item.quantity
        self.reserved = True

    def release(self) -> None:
        """Put the goods back on the shelf."""
        if not self.reserved:
            return
        for item in self.items:
            item.product.stock = Product.stock + item.quantity
        self.reserved = False

    def capture(self, amount_cents: int) -> None:
        """Write down the payment."""
        if amount_cents != self.total_cents:
            raise WrongAmount(f"Order {self.id} costs {self.total_cents} cents, {amount_cents} were confirmed.")
        self.paid_cents = amount_cents

    def ship(self) -> None:
        """Hand the parcel to the carrier."""
        self.tracking_code = self.carrier.accept(self)


class OrderItem(Model):
    """One line of an order."""

    __tablename__ = "order_items"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    product_id: Mapped[int] = mapped_column(ForeignKey("products.id"))
    quantity: Mapped[int] = mapped_column(default=1)
    order: Mapped[Order] = relationship(back_populates="items")
    product: Mapped[Product] = relationship()


class Mail(Model):
    """A mail that the shop sent; a row stands in for the mail server."""

    __tablename__ = "mails"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    recipient: Mapped[str] = mapped_column(String(200))
    text: Mapped[str] = mapped_column(Text)
    sent_at: Mapped[datetime] = mapped_column(default=lambda: datetime.now(UTC).replace(tzinfo=None))


def send_mail(order: Order, recipient: str, text: str) -> None:
    """Send a mail about an order."""
    db.session.add(Mail(order_id=order.id, recipient=recipient, text=text))
