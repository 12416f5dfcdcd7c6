"""Today's code: the class has another name, under which new rows are stored, and adopts the rows of its old one."""

from __future__ import annotations

from flask_geneva import Workflow, step
from tests.deploys.shared_options import LATER
from tests.harness.models import Order, write_down


class DispatchFlow(Workflow[Order]):
    """Pack, weigh, send."""

    __former_names__ = ["DeployedFlow"]

    @step
    def pack(self) -> None:
        write_down(self)

    @step(job_options=LATER)
    def weigh(self) -> None:
        write_down(self, "weigh, renamed")

    @step(job_options=LATER)
    def dispatch(self) -> None:
        write_down(self)
