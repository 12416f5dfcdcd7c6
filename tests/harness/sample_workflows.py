"""Workflows that the tests of the harness run, also in worker processes."""

from __future__ import annotations

from flask_geneva import Workflow, step
from tests.harness.models import Order, write_down


class TwoMarks(Workflow[Order]):
    """Leaves two marks in the ledger."""

    @step
    def first(self) -> None:
        write_down(self)

    @step
    def second(self) -> None:
        write_down(self)
