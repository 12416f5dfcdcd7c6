"""A workflow whose behaviour a test puts in: what each step, condition and hook does is a function in ``PLAN``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from flask_geneva import StepExecution, Workflow, cancel_if, on_exception, step
from flask_geneva.engine.executor import execute
from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import current_runtime
from tests.harness.models import Order, db, write_down

PLAN: dict[str, Callable[..., Any]] = {}


class Boom(Exception):
    """What goes wrong."""


class Other(Exception):
    """What goes wrong otherwise."""


def boom(*_: Any) -> Any:
    raise Boom("bang")


def planned(name: str, workflow: Any, *arguments: Any) -> Any:
    return PLAN.get(name, lambda *_: None)(workflow, *arguments)


class PlannedFlow(Workflow[Order]):
    """Three steps, conditions and hooks."""

    @cancel_if
    def is_canceled(self) -> bool:
        return bool(planned("cancel_if", self))

    @step(skip_if=lambda workflow: planned("skip_if", workflow))
    def one(self) -> None:
        write_down(self)
        planned("one", self)

    @step(wait=timedelta(hours=1))
    def two(self) -> None:
        write_down(self)
        planned("two", self)

    @step
    def three(self) -> None:
        write_down(self)

    def before_step_execution(self, execution: StepExecution) -> None:
        planned("before", self, execution)

    def after_step_execution(self, execution: StepExecution) -> None:
        planned("after", self, execution)

    @contextmanager
    def around_step_execution(self, execution: StepExecution) -> Iterator[None]:
        planned("around", self, execution)
        yield
        planned("around, afterwards", self, execution)


class PlainFlow(Workflow[Order]):
    """Two steps that may be planned, and nothing else."""

    @step
    def one(self) -> None:
        write_down(self)
        planned("one", self)

    @step
    def two(self) -> None:
        write_down(self)


class HandledFlow(PlainFlow):
    """Its errors are decided by a handler."""

    @on_exception
    def decide(self, error: Exception) -> None:
        planned("handler", self, error)


def policy_flow(action: str) -> type[Workflow[Any]]:
    """The class whose first step has this policy; its conditions are planned too."""
    return POLICY_FLOWS[action]


class PauseFlow(PlannedFlow):
    """Pauses on an error."""

    @step(on_exception="pause", before="one", skip_if=lambda workflow: planned("skip_if", workflow))
    def zero(self) -> None:
        planned("zero", self)


class CancelFlow(PlannedFlow):
    """Cancels on an error."""

    @step(on_exception="cancel", before="one", skip_if=lambda workflow: planned("skip_if", workflow))
    def zero(self) -> None:
        planned("zero", self)


class SkipFlow(PlannedFlow):
    """Skips on an error."""

    @step(on_exception="skip", before="one", skip_if=lambda workflow: planned("skip_if", workflow))
    def zero(self) -> None:
        planned("zero", self)


class ReattemptFlow(PlannedFlow):
    """Tries again on an error, twice."""

    @step(
        on_exception="reattempt", max_reattempts=2, before="one", skip_if=lambda workflow: planned("skip_if", workflow)
    )
    def zero(self) -> None:
        planned("zero", self)


POLICY_FLOWS: dict[str, type[Workflow[Any]]] = {
    "pause": PauseFlow,
    "cancel": CancelFlow,
    "skip": SkipFlow,
    "reattempt": ReattemptFlow,
}


def start(workflow_class: type[Workflow[Any]] = PlannedFlow, **columns: Any) -> Workflow[Any]:
    """Create and commit a workflow for an order of its own."""
    order = Order(**columns)
    db.session.add(order)
    workflow = workflow_class.create(hero=order)
    db.session.commit()
    return workflow


def run_job(execution_id: int | None, **options: Any) -> Run:
    """Run an execution as its job does, on time; the run says what was to be reported."""
    app = current_runtime().app
    db.session.rollback()
    with app.app_context():
        run = Run(current_runtime(), db.session(), **{"runs_ahead": False, **options})
        execute(run, execution_id or 0)
    return run


def states(workflow: Workflow[Any]) -> list[tuple[str, str, str | None]]:
    return [
        (each.step_name, str(each.state), each.outcome and str(each.outcome)) for each in workflow.execution_history
    ]


def reload(workflow: Workflow[Any]) -> Workflow[Any]:
    """The workflow as others see it."""
    db.session.rollback()
    db.session.refresh(workflow)
    return workflow
