"""What is being deployed: sorting is done anew, customs are gone, an audit has come."""

from __future__ import annotations

from flask_geneva import IterableStep, Workflow, removed_step, resumable_step, step
from tests.harness.models import Order, write_down
from tests.worker.workflows import meet


class ReleasedFlow(Workflow[Order]):
    """Sort, audit, inform."""

    __workflow_name__ = "ReleasedFlow"

    @resumable_step
    def sort(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(4)):
            write_down(self, f"sort {number} anew")
            if number == 1:
                meet("sorting")

    clear = removed_step()

    @step
    def audit(self) -> None:
        write_down(self)

    @step
    def inform(self) -> None:
        write_down(self)
