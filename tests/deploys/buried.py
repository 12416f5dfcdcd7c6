"""Today's code: weighing was removed, and its gravestone says that workflows go on past it."""

from __future__ import annotations

from flask_geneva import Workflow, removed_step, step
from tests.deploys.shared_options import LATER
from tests.harness.models import Order, write_down


class DeployedFlow(Workflow[Order]):
    """Pack, send."""

    __workflow_name__ = "DeployedFlow"

    @step
    def pack(self) -> None:
        write_down(self)

    weigh = removed_step()

    @step(job_options=LATER)
    def dispatch(self) -> None:
        write_down(self)
