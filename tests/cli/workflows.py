"""The workflow class that the tests of the command line act on."""

from __future__ import annotations

from datetime import timedelta

from flask_geneva import Workflow, removed_step, step
from tests.harness.models import Order


class ParcelDispatch(Workflow[Order]):
    """Takes an order from its payment to the review."""

    @step
    def reserve(self) -> None:
        pass

    @step(wait_for="paid", deadline=timedelta(days=2), on_deadline="skip")
    def capture(self) -> None:
        signal = self.received_signal
        if signal is not None and signal.payload == "boom":
            raise TimeoutError("the gateway.\nIt is down")

    print_label = removed_step()

    @step(wait=timedelta(days=3))
    def ask_review(self) -> None:
        pass
