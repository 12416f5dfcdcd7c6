"""What happened to an order so far, in words, for the order's page and for ``make demo``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import select

from flask_geneva import StepExecution
from sample_app.extensions import db
from sample_app.models import Order
from sample_app.workflows import OrderFulfillment

Timeline = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt at one step."""

    id: int
    step: str
    state: str
    outcome: str | None
    at: str
    error: str | None

    @property
    def sentence(self) -> str:
        """Such as ``ship failed: CarrierUnavailable: ...``."""
        said = self.step.replace("_", " ")
        verb = self.state.replace("_", " ")
        return f"{said} {verb}: {self.error}" if self.error else f"{said} {verb}"


def newest_workflow(order: Order) -> OrderFulfillment | None:
    """The workflow of an order, also when it has ended."""
    newest_first = select(OrderFulfillment).where(OrderFulfillment.hero_is(order)).order_by(OrderFulfillment.id.desc())
    return db.session.scalars(newest_first.limit(1)).first()


def attempts(workflow: OrderFulfillment | None) -> list[Attempt]:
    """Every attempt at every step, in the order in which they were made."""
    return [_attempt(execution) for execution in workflow.execution_history] if workflow else []


def steps(workflow: OrderFulfillment | None) -> list[tuple[str, str]]:
    """Each step of the workflow and how far it has come: done, here, or to come."""
    latest = {attempt.step: attempt.state for attempt in attempts(workflow)}
    return [(step.name, latest.get(step.name, "to come")) for step in OrderFulfillment.steps.runnable]


def as_json(workflow: OrderFulfillment | None) -> Timeline:
    """The whole timeline as plain values."""
    if workflow is None:
        return {"workflow_id": None, "state": None, "stands": "no workflow", "attempts": []}
    return {
        "workflow_id": workflow.id,
        "state": workflow.state,
        "stands": workflow.explain(),
        "attempts": [{**asdict(attempt), "sentence": attempt.sentence} for attempt in attempts(workflow)],
    }


def _attempt(execution: StepExecution) -> Attempt:
    error = execution.error_class_name and f"{execution.error_class_name}: {execution.error_message}"
    moment = execution.finished_at or execution.started_at or execution.waiting_since or execution.scheduled_for
    return Attempt(
        id=execution.id,
        step=execution.step_name,
        state=execution.state,
        outcome=execution.outcome,
        at=f"{moment:%H:%M:%S}" if moment else "",
        error=error,
    )
