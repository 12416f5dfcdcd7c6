"""What is deployed: a step that sorts, one that waits for customs, one that informs."""

from __future__ import annotations

from flask_geneva import IterableStep, Workflow, resumable_step, step
from tests.harness.models import Order, write_down
from tests.worker.workflows import meet


class ReleasedFlow(Workflow[Order]):
    """Sort, clear, inform."""

    __workflow_name__ = "ReleasedFlow"

    @resumable_step
    def sort(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(4)):
            write_down(self, f"sort {number}")
            if number == 1:
                meet("sorting")

    @step(wait_for="cleared")
    def clear(self) -> None:
        write_down(self)
        meet("clearing")

    @step
    def inform(self) -> None:
        write_down(self)
