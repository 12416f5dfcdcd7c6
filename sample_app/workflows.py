"""How an order becomes a parcel. Reads from top to bottom as it happens, over days."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import select

from flask_geneva import ExceptionPolicy, IterableStep, Workflow, cancel_if, resumable_step, step
from sample_app.models import Order, OrderItem, OutOfStock, send_mail

# A real shop would say hours and days here.
PACKING_TIME = timedelta(seconds=2)
TIME_TO_UNPACK = timedelta(seconds=2)
TIME_TO_PAY = timedelta(days=2)


class OrderFulfillment(Workflow[Order]):
    """One order, from payment to parcel."""

    exception_policies = [ExceptionPolicy("cancel", matching=OutOfStock)]

    @cancel_if
    def order_withdrawn(self) -> bool:
        return self.hero.withdrawn

    @step
    def reserve_stock(self) -> None:
        self.hero.reserve()

    @step(wait_for="payment_confirmed", deadline=TIME_TO_PAY, on_deadline="run")
    def capture_payment(self) -> None:
        if self.received_signal is None:
            self.hero.release()
            self.cancel()
            return
        self.hero.capture(self.received_signal.payload["amount_cents"])

    @resumable_step(max_runtime=timedelta(minutes=5))
    def tell_suppliers(self, it: IterableStep) -> None:
        items = select(OrderItem).filter_by(order_id=self.hero.id)
        for item in it.iterate_over_records(items, cursor=OrderItem.id):
            send_mail(self.hero, item.product.supplier.email, f"We sold {item.quantity} {item.product.name}.")

    @step(wait=PACKING_TIME)
    def ship(self) -> None:
        self.hero.ship()

    @step(wait=TIME_TO_UNPACK, skip_if=lambda self: self.hero.reviewed)
    def ask_for_review(self) -> None:
        send_mail(self.hero, self.hero.customer.email, "How do you like it?")
