"""The story of one workflow: every attempt at every step and every signal, in the order in which they came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from flask_geneva.insights.listing import LARGEST_ID
from flask_geneva.records.later_columns import lacks
from flask_geneva.records.signal import Signal
from flask_geneva.records.step_execution import StepExecution
from flask_geneva.records.tables import step_executions
from flask_geneva.workflow import Workflow


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A workflow with its attempts and its signals, oldest first."""

    workflow: Workflow[Any]
    executions: Sequence[StepExecution]
    signals: Sequence[Signal]

    @property
    def entries(self) -> list[StepExecution | Signal]:
        """Attempts and signals in one row, by the moment at which they were written."""
        both: list[StepExecution | Signal] = [*self.executions, *self.signals]
        return sorted(both, key=lambda entry: (entry.created_at, isinstance(entry, StepExecution), entry.id))


def timeline_of(session: Session, workflow_id: int) -> Timeline | None:
    """Read a workflow with all that happened to it, as it is in the database; None when there is none."""
    if not 0 < workflow_id <= LARGEST_ID:
        return None
    workflow = session.get(Workflow, workflow_id, populate_existing=True)
    if workflow is None:
        return None
    return Timeline(workflow=workflow, executions=workflow.execution_history, signals=_signals_of(session, workflow_id))


def _signals_of(session: Session, workflow_id: int) -> Sequence[Signal]:
    if lacks(session.connection(), step_executions.c.signal_id):
        # The table of signals came with the column.
        return ()
    statement = select(Signal).where(Signal.workflow_id == workflow_id).order_by(Signal.id)
    return session.execute(statement.execution_options(populate_existing=True)).scalars().all()
