"""Workflows whose rows do not fit together: nothing to come though they go on, something open though they ended, or
parked though nothing keeps them.

The engine writes no such rows; people, restored backups and old code do. One run looks at a bounded number of
workflows and the next goes on where it stopped, so that a run takes no longer for a million of them than for a few
thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, false, func, or_, select, tuple_

from flask_geneva.definition.verdicts import Paused
from flask_geneva.engine.attempt import Attempt
from flask_geneva.engine.executor import end_from_outside
from flask_geneva.engine.finalization import proceed_after
from flask_geneva.engine.outbox import announce_rest_after_commit
from flask_geneva.engine.resumption import afresh, unparked
from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import Runtime
from flask_geneva.engine.scheduling import execution_of, store
from flask_geneva.engine.transactions import lock_free_pair, lock_free_workflow, open_executions, read_of_workflow
from flask_geneva.errors import GenevaError, MigrationMissing, StepNotDefinedError, WorkflowNotDefinedError
from flask_geneva.housekeeping.dead_executions import is_dead
from flask_geneva.housekeeping.tasks import NOTHING, Counts, Sweep, Task
from flask_geneva.records.instances import instance_of
from flask_geneva.records.saving import save
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.tables import signals, step_executions, workflows
from flask_geneva.records.transitions import move_execution, move_workflow
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import (
    ENDED_WORKFLOW_STATES,
    OPEN_STEP_STATES,
    RUNNABLE_WORKFLOW_STATES,
    Outcome,
    SignalState,
    StepState,
    WorkflowState,
)

BATCHES_IN_A_RUN = 2
BOOKMARK = "broken_workflows"

_E, _W = step_executions.c, workflows.c


def broken_workflows(sweep: Sweep) -> Iterator[Task]:
    """Find broken workflows among the next ones, and remember where the next run is to go on."""
    start = sweep.runtime.queue.bookmark(BOOKMARK) if sweep.runtime.settings.enqueue else 0
    many = BATCHES_IN_A_RUN * sweep.batch_size
    within = select(_W.id).where(_W.id > start).order_by(_W.id).limit(many).subquery()
    end, found = sweep.read(select(func.max(within.c.id), func.count()).select_from(within))[0]
    if found:
        for row in _read(sweep, start, end):
            yield Task(subject=f"workflow #{row.id}", work=lambda row=row: _mend(sweep, row))  # type: ignore[misc]
    if sweep.runtime.settings.enqueue:
        sweep.runtime.queue.set_bookmark(BOOKMARK, end if found == many else 0)


def _read(sweep: Sweep, start: int, end: int) -> Sequence[Any]:
    try:
        return sweep.read(_broken(sweep.runtime, start, end, _has_signal(start, end)))
    except MigrationMissing:
        # Without the table of signals none can have come; the rest is looked after all the same.
        sweep.session.rollback()
        return sweep.read(_broken(sweep.runtime, start, end, false()))


def _broken(runtime: Runtime, start: int, end: int, has_signal: ColumnElement[bool]) -> Select[Any]:
    # The range is told of each table, or the database may read all that is open, or every signal.
    is_open = and_(_E.workflow_id == _W.id, _among(_E.workflow_id, start, end), _E.state.in_(OPEN_STEP_STATES))
    return (
        select(_W.id, _W.state, _E.id.label("execution_id"), _E.state.label("execution_state"))
        .select_from(workflows.outerjoin(step_executions, is_open))
        .where(
            _among(_W.id, start, end),
            or_(
                and_(_W.state.in_(RUNNABLE_WORKFLOW_STATES), _E.id.is_(None)),
                and_(_W.state.in_(ENDED_WORKFLOW_STATES), _E.id.is_not(None)),
                and_(
                    _W.state == WorkflowState.READY,
                    _E.state == StepState.WAITING,
                    or_(_needs_no_signal(runtime), has_signal),
                ),
            ),
        )
        .order_by(_W.id, _E.id)
    )


def _among(workflow_id: ColumnElement[int], start: int, end: int) -> ColumnElement[bool]:
    return and_(workflow_id > start, workflow_id <= end)


def _has_signal(start: int, end: int) -> ColumnElement[bool]:
    """One that came when nobody could take it, such as between a deploy and its being taken back."""
    columns = signals.c
    return exists().where(
        columns.workflow_id == _W.id, _among(columns.workflow_id, start, end), columns.state == SignalState.PENDING
    )


def _needs_no_signal(runtime: Runtime) -> ColumnElement[bool]:
    """The step that is parked was removed by a deploy, or waits no more since then."""
    steps = [
        (name, step.name)
        for workflow_class in runtime.declared_classes().values()
        for step in workflow_class.definition.steps.values()
        if step.removed or not step.waits_for_signal
        for name in workflow_class.definition.stored_names
    ]
    return tuple_(_W.type, _E.step_name).in_(steps) if steps else false()


def _mend(sweep: Sweep, row: Any) -> Counts:
    if row.execution_id is None:
        return _schedule_anew(sweep, row)
    return (_release if row.state is WorkflowState.READY else _close)(sweep, row)


def _schedule_anew(sweep: Sweep, row: Any) -> Counts:
    workflow = lock_free_workflow(sweep.session, row.id)
    if workflow is None or workflow.state not in RUNNABLE_WORKFLOW_STATES:
        return NOTHING
    if open_executions(sweep.session, workflow.id):
        return NOTHING
    run = sweep.run()
    obstacle = _obstacle(run.runtime, workflow)
    if obstacle is not None:
        _pause(run, workflow, obstacle)
        return {"workflows_rescheduled": 1}
    move_workflow(workflow, WorkflowState.READY, now=run.now)
    workflow.change(current_step_name=None)
    store(run.runtime, run.session, workflow, _what_comes_next(run, workflow), now=run.now)
    return {"workflows_rescheduled": 1}


def _obstacle(runtime: Runtime, workflow: WorkflowRow) -> GenevaError | None:
    workflow_class = runtime.class_named(workflow.type)
    if workflow_class is None:
        return WorkflowNotDefinedError(workflow.type, workflow.id)
    steps = workflow_class.definition.steps
    if workflow.next_step_name is None or workflow.next_step_name in steps:
        return None
    defined = [step.name for step in steps.runnable]
    return StepNotDefinedError(
        f"go on with {workflow.type} #{workflow.id}", workflow.type, workflow.next_step_name, defined
    )


def _pause(run: Run, workflow: WorkflowRow, obstacle: GenevaError) -> None:
    """Let a row of the history tell why."""
    execution = execution_of(workflow, workflow.next_step_name or "", due=run.now)
    save(run.session, execution, now=run.now)
    end_from_outside(run, workflow, execution, Paused(error=obstacle))


def _what_comes_next(run: Run, workflow: WorkflowRow) -> ExecutionRow | None:
    workflow_class: Any = run.runtime.class_named(workflow.type)
    if workflow.next_step_name is not None:
        return afresh(run, workflow, workflow_class.definition.steps[workflow.next_step_name])
    history = read_of_workflow(run.session, ExecutionRow, workflow.id)
    return proceed_after(run, workflow, history[-1].step_name if history else None)


def _release(sweep: Sweep, row: Any) -> Counts:
    """Let a step go on that is parked for nothing; where another signal than its own has come, it stays."""
    pair = lock_free_pair(sweep.session, row.id, row.execution_id)
    if pair is None or pair[0].state is not WorkflowState.READY or pair[1].state is not StepState.WAITING:
        return NOTHING
    run, (workflow, execution) = sweep.run(), pair
    workflow_class = run.runtime.class_named(workflow.type)
    step = None if workflow_class is None else workflow_class.definition.steps.get(execution.step_name)
    if workflow_class is None or step is None:
        return NOTHING
    attempt = Attempt(run.runtime, run.session, workflow, execution, workflow_class, step)
    follower = unparked(run, attempt, instance_of(run.session, workflow_class, workflow))
    if execution.state is StepState.WAITING:
        return NOTHING
    store(run.runtime, run.session, workflow, follower, now=run.now)
    announce_rest_after_commit(run.runtime, run.session, workflow)
    return {"gravestones_released" if step.removed else "parked_steps_released": 1}


def _close(sweep: Sweep, row: Any) -> Counts:
    """End an open execution of a workflow that has ended; what it waited for would not run any more."""
    pair = lock_free_pair(sweep.session, row.id, row.execution_id)
    if pair is None or pair[0].state not in ENDED_WORKFLOW_STATES or pair[1].state not in OPEN_STEP_STATES:
        return NOTHING
    execution = pair[1]
    if execution.state is StepState.IN_PROGRESS:
        liveness = sweep.liveness([execution.job_id])[execution.job_id]
        if not is_dead(sweep, liveness, execution.started_at):
            return NOTHING
    run = sweep.run()
    move_execution(execution, StepState.CANCELED, now=run.now, outcome=Outcome.CANCELED)
    save(run.session, execution, now=run.now)
    return {"strays_closed": 1}
