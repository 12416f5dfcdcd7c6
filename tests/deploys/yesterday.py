"""The code that was deployed yesterday."""

from __future__ import annotations

from flask_geneva import Workflow, step
from tests.deploys.shared_options import LATER
from tests.harness.models import Order, write_down


class DeployedFlow(Workflow[Order]):
    """Pack, weigh, send."""

    __workflow_name__ = "DeployedFlow"

    @step
    def pack(self) -> None:
        write_down(self)

    @step(job_options=LATER)
    def weigh(self) -> None:
        write_down(self)

    @step(job_options=LATER)
    def dispatch(self) -> None:
        write_down(self)
