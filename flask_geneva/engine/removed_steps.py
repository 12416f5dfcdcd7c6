"""Which gravestones are still needed, because workflows stand at them."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session

from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.states import ONGOING_WORKFLOW_STATES, OPEN_STEP_STATES


def in_flight(session: Session, type_names: Collection[str], gravestones: Collection[str]) -> dict[str, int]:
    """Count the ongoing workflows that stand at each gravestone, by an open row or by what they are pointed at."""
    if not gravestones:
        return {}
    open_row = and_(step_executions.c.workflow_id == workflows.c.id, step_executions.c.state.in_(OPEN_STEP_STATES))
    standing = func.coalesce(step_executions.c.step_name, workflows.c.next_step_name)
    statement = (
        select(standing, func.count(workflows.c.id.distinct()))
        .select_from(workflows.outerjoin(step_executions, open_row))
        .where(
            workflows.c.type.in_(type_names),
            workflows.c.state.in_(ONGOING_WORKFLOW_STATES),
            standing.in_(gravestones),
        )
        .group_by(standing)
    )
    return {name: count for name, count in session.execute(statement)}
