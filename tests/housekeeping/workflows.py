"""Workflows that housekeeping is tried on, and what writes their rows as no engine would."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select, update

from flask_geneva import ExceptionPolicy, IterableStep, StepExecution, Workflow, removed_step, resumable_step, step
from flask_geneva.records.tables import step_executions, workflows
from tests.harness.models import Order, db, write_down


class Errand(Workflow[Order]):
    """Two steps at once, and one a long time later."""

    @step
    def first(self) -> None:
        write_down(self)

    @step
    def second(self) -> None:
        write_down(self)

    @step(wait=timedelta(days=30))
    def much_later(self) -> None:
        write_down(self)


class Later(Workflow[Order]):
    """Begins in an hour."""

    @step(wait=timedelta(hours=1))
    def only(self) -> None:
        write_down(self)


class Parked(Workflow[Order]):
    """Waits for a signal, though not for ever."""

    @step(wait_for="paid", deadline=timedelta(hours=1), on_deadline="skip")
    def payment(self) -> None:
        write_down(self)

    @step
    def thanks(self) -> None:
        write_down(self)


class OverGraves(Workflow[Order]):
    """A step that waited was removed; another stands behind it."""

    before = step("leave_a_mark", wait_for="never")
    payment = removed_step()
    after = step("leave_a_mark")

    def leave_a_mark(self) -> None:
        write_down(self)


class CountedKeeping(Workflow[Order]):
    """A resumable step."""

    @resumable_step
    def count(self, it: IterableStep) -> None:
        for item in it.iterate_over(range(5)):
            write_down(self, f"count {item}")


class Stubborn(Workflow[Order]):
    """A step that sets a limit of its own."""

    @step(on_exception=ExceptionPolicy("reattempt", max_reattempts=1))
    def only(self) -> None:
        write_down(self)


def ago(**duration: float) -> datetime:
    """The moment that was so long ago."""
    return datetime.now(UTC) - timedelta(**duration)


def create(workflow_class: type[Workflow[Any]], **options: Any) -> Any:
    """A committed workflow with a hero of its own."""
    order = Order()
    db.session.add(order)
    workflow = workflow_class.create(hero=order, **options)
    db.session.commit()
    return workflow


def write_workflow(workflow: Workflow[Any], **columns: Any) -> None:
    """Write the columns of a workflow by hand."""
    db.session.execute(update(workflows).where(workflows.c.id == workflow.id).values(columns))
    db.session.commit()


def write_execution(workflow: Workflow[Any], **columns: Any) -> None:
    """Write the columns of the newest execution by hand, and commit what was done before."""
    db.session.commit()
    newest = newest_of(workflow)
    db.session.execute(update(step_executions).where(step_executions.c.id == newest.id).values(columns))
    db.session.commit()


def begin_by_hand(workflow: Workflow[Any], **columns: Any) -> None:
    """Let the newest execution look as if a worker had it in hand for two hours."""
    write_execution(workflow, **{"state": "in_progress", "started_at": ago(hours=2), **columns})
    write_workflow(workflow, state="performing", current_step_name=newest_of(workflow).step_name)


def newest_of(workflow: Workflow[Any]) -> StepExecution:
    """The newest execution as it is in the database."""
    db.session.rollback()
    statement = select(StepExecution).where(StepExecution.workflow_id == workflow.id).order_by(StepExecution.id.desc())
    return db.session.scalars(statement.limit(1).execution_options(populate_existing=True)).one()


def story_of(workflow: Workflow[Any]) -> list[tuple[str, str, str | None]]:
    """Every execution as (step, state, outcome), oldest first."""
    db.session.rollback()
    return [(each.step_name, each.state, each.outcome) for each in workflow.execution_history]
