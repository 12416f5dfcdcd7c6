"""Executions in progress whose worker is gone: recovered, and given up when the step is what kills its workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select

from flask_geneva.definition.steps import StepDefinition
from flask_geneva.definition.verdicts import Recovered
from flask_geneva.engine.executor import end_from_outside
from flask_geneva.engine.runtime import Liveness, Runtime
from flask_geneva.engine.transactions import current, lock_free_pair
from flask_geneva.errors import WorkerDied
from flask_geneva.housekeeping.tasks import NOTHING, Counts, Sweep, Task
from flask_geneva.logs import logger_for
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import RUNNABLE_WORKFLOW_STATES, StepState

MAX_DEATHS = 3

_E, _W = step_executions.c, workflows.c


@dataclass(frozen=True, kw_only=True)
class Death:
    """How a worker ended; ``is_counted`` when the step may be to blame, ``stops`` when an operator wanted an end."""

    cause: str
    is_counted: bool = True
    stops: bool = False


def dead_executions(sweep: Sweep) -> Iterator[Task]:
    """Find executions in progress that the queue calls dead, or has not known for too long."""
    last_id = 0
    while True:
        rows = sweep.read(_in_progress(last_id).limit(sweep.batch_size))
        yield from _tasks(sweep, rows)
        if len(rows) < sweep.batch_size:
            return
        last_id = rows[-1].id


def of_job(sweep: Sweep, job_id: str, execution_id: int, death: Death, *, also_scheduled: bool) -> Iterator[Task]:
    """Find the execution that a dead job had in hand: the one that it was sent for, or a later one of its workflow.

    ``also_scheduled`` takes in the one that it had not begun yet.
    """
    owner = select(_E.workflow_id).where(_E.id == execution_id).scalar_subquery()
    states = (StepState.IN_PROGRESS, StepState.SCHEDULED) if also_scheduled else (StepState.IN_PROGRESS,)
    where = (_E.workflow_id == owner, _E.state.in_(states), _E.job_id == job_id)
    for row in sweep.read(_columns().where(*where)):
        yield _task(sweep, row, death)


def is_dead(sweep: Sweep, liveness: Liveness, started_at: datetime | None) -> bool:
    """Whether an execution in progress is to be taken from its worker."""
    if liveness is Liveness.RUNNING:
        return False
    if liveness is not Liveness.UNKNOWN:
        return True
    return started_at is None or started_at <= sweep.now - sweep.runtime.settings.stuck_in_progress_threshold


def _columns() -> Select[Any]:
    return select(_E.id, _E.workflow_id, _E.job_id, _E.started_at, _E.state)


def _in_progress(last_id: int) -> Select[Any]:
    return (
        _columns()
        .join(workflows, _W.id == _E.workflow_id)
        .where(_E.state == StepState.IN_PROGRESS, _E.id > last_id, _W.state.in_(RUNNABLE_WORKFLOW_STATES))
        .order_by(_E.id)
    )


def _tasks(sweep: Sweep, rows: Sequence[Any]) -> Iterator[Task]:
    answers = sweep.liveness([row.job_id for row in rows])
    for row in rows:
        liveness = answers[row.job_id]
        if is_dead(sweep, liveness, row.started_at):
            yield _task(sweep, row, Death(cause=_cause(liveness)))


def _cause(liveness: Liveness) -> str:
    if liveness is Liveness.UNKNOWN:
        return "or so it seems: the queue does not know its job"
    return "unseen: its job has ended, or its heartbeat has"


def _task(sweep: Sweep, row: Any, death: Death) -> Task:
    return Task(subject=f"step execution #{row.id}", work=lambda: _recover(sweep, row, death))


def _recover(sweep: Sweep, row: Any, death: Death) -> Counts:
    pair = lock_free_pair(sweep.session, row.workflow_id, row.id)
    if pair is None or pair[1].state is not row.state or pair[1].job_id != row.job_id:
        return NOTHING
    workflow, execution = pair
    if workflow.state not in RUNNABLE_WORKFLOW_STATES:
        return NOTHING
    verdict = _verdict(sweep, workflow, execution, death)
    _logger(sweep.run().runtime, workflow, execution).warning("%s (%s)", verdict.error, verdict.action)
    end_from_outside(sweep.run(), workflow, execution, verdict)
    return {"stuck_in_progress_recovered": 1}


def _verdict(sweep: Sweep, workflow: WorkflowRow, execution: ExecutionRow, death: Death) -> Recovered:
    deaths = _deaths_in_a_row(sweep, execution) if death.is_counted else 0
    action = sweep.runtime.settings.stuck_recovery_action
    step = _step(sweep.runtime, workflow, execution)
    if death.stops or (action == "reattempt" and death.is_counted and _is_over_the_limit(step, execution, deaths)):
        action = "pause"
    return Recovered(error=WorkerDied(death.cause, deaths), action=action, deaths=deaths)


def _is_over_the_limit(step: StepDefinition | None, execution: ExecutionRow, deaths: int) -> bool:
    """The step's own limit of reattempts, where it sets one, counts deaths like errors."""
    policies = () if step is None else step.exception_policies
    limits = [each.max_reattempts for each in policies if each.has_explicit_cap and each.max_reattempts is not None]
    return execution.error_reattempts >= min(limits) if limits else deaths >= MAX_DEATHS


def _deaths_in_a_row(sweep: Sweep, execution: ExecutionRow) -> int:
    """A resumable step that moved its cursor before it died has begun a new row."""
    return 1 if _has_progressed(sweep, execution) else execution.death_reattempts + 1


def _has_progressed(sweep: Sweep, execution: ExecutionRow) -> bool:
    if execution.cursor_value is None or execution.continues_from_id is None:
        return execution.cursor_value is not None
    statement = select(_E.cursor_value).where(_E.id == execution.continues_from_id)
    began_with = sweep.session.connection().execute(current(sweep.session, statement)).scalar_one_or_none()
    return bool(began_with != execution.cursor_value)


def _step(runtime: Runtime, workflow: WorkflowRow, execution: ExecutionRow) -> StepDefinition | None:
    workflow_class = runtime.class_named(workflow.type)
    return None if workflow_class is None else workflow_class.definition.steps.get(execution.step_name)


def _logger(runtime: Runtime, workflow: WorkflowRow, execution: ExecutionRow) -> Any:
    return logger_for(
        workflow_type=runtime.name_of(workflow.type),
        workflow_id=workflow.id,
        hero_type=workflow.hero_type,
        hero_id=workflow.hero_id,
        execution_id=execution.id,
        step_name=execution.step_name,
    )
