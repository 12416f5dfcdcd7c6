"""One step's life in statements, so that a process that forks has compiled them before its children would each.

Nothing is written: the rows do not exist, and what would insert one is not sent as it is.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

from flask_geneva.engine.runtime import Runtime, new_job_id
from flask_geneva.engine.transactions import lock_both, lock_execution
from flask_geneva.records.joint_writes import can_join
from flask_geneva.records.saving import Row, StaleRow, save
from flask_geneva.records.transitions import move_execution, move_workflow, new_execution, new_workflow
from flask_geneva.states import Outcome, StepState, WorkflowState

NOBODY = 0


def rehearse(runtime: Runtime) -> None:
    """Compile the statements of a first, a later and a last step in the current context, and roll back."""
    session = runtime.session()
    try:
        lock_execution(session, NOBODY)
        lock_both(session, NOBODY, NOBODY)
        event.listen(session.connection(), "before_cursor_execute", _instead_of_an_insert, retval=True)
        for is_last in (False, True):
            _one_step(runtime, session, is_last=is_last)
    finally:
        session.invalidate()


def _one_step(runtime: Runtime, session: Session, *, is_last: bool) -> None:
    now = runtime.now()
    workflow, execution = _nobody(new_workflow()), _nobody(new_execution())
    move_execution(execution, StepState.IN_PROGRESS, now=now)
    execution.change(job_id=new_job_id())
    move_workflow(workflow, WorkflowState.PERFORMING, now=now)
    workflow.change(current_step_name="", **({} if is_last else {"started_at": now}))
    _save(session, execution, workflow, now=now)
    move_execution(execution, StepState.COMPLETED, now=now, outcome=Outcome.SUCCESS)
    move_workflow(workflow, WorkflowState.FINISHED if is_last else WorkflowState.READY, now=now)
    if is_last:
        _save(session, execution, workflow, now=now)
        return
    workflow.change(current_step_name=None, next_step_name="")
    follower = new_execution(workflow_id=NOBODY, step_name="", scheduled_for=now + timedelta(1), job_id=new_job_id())
    _save(session, execution, follower, workflow, now=now)


def _nobody(row: Any) -> Any:
    """The row as if it had been read, with a key that none has."""
    return type(row)({**row.__dict__, "id": NOBODY})


def _save(session: Session, *rows: Row, now: Any) -> None:
    """Save what is nobody's, so that nothing is there to be changed."""
    statements = [rows] if can_join(session.connection()) else [(row,) for row in rows]
    for together in statements:
        with suppress(StaleRow):
            save(session, *together, now=now)
    for row in rows:
        row._was_stored(NOBODY)


def _instead_of_an_insert(
    connection: object, cursor: object, statement: str, parameters: Any, context: object, executemany: bool
) -> tuple[str, Any]:
    return ("SELECT 1", type(parameters)()) if statement.startswith("INSERT") else (statement, parameters)
