"""Rows that wait for a moment and have no job that comes then: sent again.

Redis may have been flushed, or was away when the row was written; the row may have been written where nothing is sent;
or its moment lay beyond the spool horizon. A second job for a row does no harm, so a doubtful case is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, and_, or_, select, true

from flask_geneva.engine.runtime import Liveness, new_job_id
from flask_geneva.engine.scheduling import store
from flask_geneva.engine.transactions import lock_free_pair
from flask_geneva.housekeeping.tasks import NOTHING, Counts, Sweep, Task
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.records.transitions import move_workflow
from flask_geneva.states import RUNNABLE_WORKFLOW_STATES, StepState, WorkflowState

# Rows ahead are looked at in the order of their moments, and further only while the queue has lost some of them.
MAX_BATCHES_AHEAD = 20

_E, _W = step_executions.c, workflows.c
_MOMENTS: tuple[tuple[StepState, Column[Any]], ...] = (
    (StepState.SCHEDULED, _E.scheduled_for),
    (StepState.WAITING, _E.deadline_at),
)


def lost_jobs(sweep: Sweep) -> Iterator[Task]:
    """Find scheduled rows, and parked ones with a deadline, that the queue does not know."""
    if not sweep.runtime.settings.enqueue:
        return
    for state, moment in _MOMENTS:
        yield from _overdue(sweep, state, moment)
    for state, moment in _MOMENTS:
        yield from _ahead(sweep, state, moment)


def _overdue(sweep: Sweep, state: StepState, moment: Column[Any]) -> Iterator[Task]:
    is_overdue = moment <= sweep.now - sweep.overdue_after
    for rows in _pages(sweep, state, moment, is_overdue):
        yield from _tasks(sweep, rows)


def _ahead(sweep: Sweep, state: StepState, moment: Column[Any]) -> Iterator[Task]:
    horizon = sweep.runtime.settings.spool_horizon
    is_ahead = moment > sweep.now if horizon is None else and_(moment > sweep.now, moment <= sweep.now + horizon)
    for number, rows in enumerate(_pages(sweep, state, moment, is_ahead), start=1):
        tasks = list(_tasks(sweep, rows))
        yield from tasks
        if not tasks or number == MAX_BATCHES_AHEAD:
            return


def _pages(
    sweep: Sweep, state: StepState, moment: Column[Any], is_wanted: ColumnElement[bool]
) -> Iterator[Sequence[Any]]:
    """Read pages by the moment and the primary key, so that a row whose work fails is not met again."""
    last: Any = None
    while True:
        behind = true() if last is None else or_(moment > last.moment, and_(moment == last.moment, _E.id > last.id))
        rows = sweep.read(_rows(state, moment, is_wanted, behind).limit(sweep.batch_size))
        if rows:
            yield rows
            last = rows[-1]
        if len(rows) < sweep.batch_size:
            return


def _rows(
    state: StepState, moment: Column[Any], is_wanted: ColumnElement[bool], behind: ColumnElement[bool]
) -> Select[Any]:
    states = RUNNABLE_WORKFLOW_STATES if state is StepState.SCHEDULED else (WorkflowState.READY,)
    return (
        select(_E.id, _E.workflow_id, _E.job_id, moment.label("moment"))
        .join(workflows, _W.id == _E.workflow_id)
        .where(_E.state == state, is_wanted, behind, _W.state.in_(states))
        .order_by(moment, _E.id)
    )


def _tasks(sweep: Sweep, rows: Sequence[Any]) -> Iterator[Task]:
    answers = sweep.liveness([row.job_id for row in rows])
    for row in rows:
        if not _has_job(sweep, answers[row.job_id], row.moment):
            yield Task(subject=f"step execution #{row.id}", work=lambda row=row: _send_again(sweep, row))  # type: ignore[misc]


def _has_job(sweep: Sweep, liveness: Liveness, moment: datetime) -> bool:
    if liveness is Liveness.DELAYED:
        # One that no scheduler takes up is as good as lost.
        return moment > sweep.now - sweep.runtime.settings.stuck_scheduled_threshold
    return liveness in (Liveness.QUEUED, Liveness.RUNNING)


def _send_again(sweep: Sweep, row: Any) -> Counts:
    run = sweep.run()
    pair = lock_free_pair(sweep.session, row.workflow_id, row.id)
    if pair is None or not _is_as_before(pair[1], row) or pair[0].state not in RUNNABLE_WORKFLOW_STATES:
        return NOTHING
    workflow, execution = pair
    if workflow.state is WorkflowState.PERFORMING and execution.state is StepState.SCHEDULED:
        # Written so by hand: the one active execution is this, so that nothing is performed.
        move_workflow(workflow, WorkflowState.READY, now=run.now)
        workflow.change(current_step_name=None)
    execution.change(job_id=new_job_id())
    store(sweep.runtime, sweep.session, workflow, execution, now=run.now)
    return {"stuck_scheduled_recovered": 1}


def _is_as_before(execution: ExecutionRow, row: Any) -> bool:
    return execution.state in (StepState.SCHEDULED, StepState.WAITING) and execution.job_id == row.job_id
