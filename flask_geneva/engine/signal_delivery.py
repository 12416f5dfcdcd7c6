"""Where a signal and a step meet: delivery wakes a parked step, the gate attaches a buffered signal or parks the step.

Both sides hold the workflow's lock, so that whichever comes second finds what the first has left.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from flask_geneva import events
from flask_geneva.definition.signal_matchers import Matcher, SignalMatcher, accepts
from flask_geneva.definition.steps import StepDefinition
from flask_geneva.engine.attempt import Attempt
from flask_geneva.engine.outbox import announce_after_commit
from flask_geneva.engine.runtime import Runtime, new_job_id
from flask_geneva.engine.scheduling import send_at_once, store
from flask_geneva.engine.transactions import (
    current_of_workflow,
    read_current,
    read_of_workflow,
    trial,
)
from flask_geneva.records.instances import instance_of, show
from flask_geneva.records.later_columns import lacks
from flask_geneva.records.saving import save
from flask_geneva.records.signal import Signal, SignalRow
from flask_geneva.records.step_execution import ExecutionRow, StepExecution
from flask_geneva.records.tables import signals, step_executions
from flask_geneva.records.transitions import move_execution, move_signal
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import (
    OPEN_STEP_STATES,
    SignalState,
    StepState,
    WorkflowState,
)

logger = logging.getLogger(__name__)


def attach_or_park(attempt: Attempt, workflow_object: Any, *, now: datetime) -> bool:
    """The receiver's side, under the lock: True when the step may run, with its signal or past its deadline."""
    execution, step = attempt.execution, attempt.step
    if execution.signal_id is not None:
        return True
    row = _held_or_oldest(attempt, workflow_object)
    if row is not None:
        claim(attempt.session, row, execution, now=now)
        return True
    if execution.deadline_passed:
        return True
    park(execution, step, now=now)
    return False


def park(execution: ExecutionRow, step: StepDefinition, *, now: datetime) -> None:
    """Leave the execution waiting, without a job unless it has a deadline."""
    move_execution(execution, StepState.WAITING, now=now)
    if step.deadline is not None:
        execution.change(deadline_at=now + step.deadline, job_id=new_job_id())


def claim(session: Session, signal: SignalRow, execution: ExecutionRow, *, now: datetime) -> None:
    """Attach the signal to the execution; the count says how often it was attached."""
    move_signal(signal, SignalState.CLAIMED, now=now)
    signal.change(claimed=signal.claimed + 1)
    _save(session, signal, now=now)
    execution.change(signal_id=signal.id)


def claim_again(session: Session, execution: ExecutionRow, *, now: datetime) -> None:
    """Count that another attempt at the step was given the signal that the step holds."""
    for signal in _rows_of(session, execution.signal_id):
        signal.change(claimed=signal.claimed + 1)
        _save(session, signal, now=now)


def settle(session: Session, execution: ExecutionRow, *, now: datetime) -> None:
    """Book that a step with a signal ended cleanly; the signal is consumed once all that are attached to it have."""
    for signal in _rows_of(session, execution.signal_id):
        signal.change(consumed=signal.consumed + 1)
        if signal.state is SignalState.CLAIMED and not _is_unresolved(session, signal, execution):
            move_signal(signal, SignalState.CONSUMED, now=now)
        _save(session, signal, now=now)


def meet_again(attempt: Attempt, workflow_object: Any, *, now: datetime) -> bool:
    """Give a row that stayed parked through a pause the signal that came meanwhile; False when none did."""
    row = _held_or_oldest(attempt, workflow_object)
    if row is None:
        return False
    _wake(attempt.session, attempt.execution, row, now=now)
    return True


def delivered_before(session: Session, workflow_id: int, name: str, key: str | None) -> SignalRow | None:
    """Find the signal that was stored under the key; whoever decides by there being none holds the workflow's lock."""
    if key is None:
        return None
    columns = signals.c
    of_key = (columns.workflow_id == workflow_id, columns.name == name, columns.idempotency_key == key)
    found = read_current(session, SignalRow, *of_key)
    return found[0] if found else None


def announce(runtime: Runtime, session: Session, workflow: WorkflowRow, signal: SignalRow) -> None:
    """Tell subscribers, after the commit, that the signal has come."""
    announce_after_commit(
        runtime,
        session,
        events.signal_received,
        workflow_id=workflow.id,
        workflow_class=runtime.name_of(workflow.type),
        signal_id=signal.id,
        signal_name=signal.name,
    )


def held_signal_id(session: Session, workflow_id: int, step_name: str) -> int | None:
    """Return the signal that an earlier attempt at the step was given and did not finish with."""
    connection = session.connection()
    if lacks(connection, step_executions.c.signal_id):
        # There may be no table of signals either.
        return None
    statement = (
        select(signals.c.id, signals.c.state)
        .join(step_executions, step_executions.c.signal_id == signals.c.id)
        .where(step_executions.c.workflow_id == workflow_id, step_executions.c.step_name == step_name)
        .order_by(step_executions.c.id.desc())
        .limit(1)
    )
    statement = current_of_workflow(session, statement, step_executions)
    row = connection.execute(statement).one_or_none()
    return row.id if row is not None and row.state is SignalState.CLAIMED else None


def meet(runtime: Runtime, session: Session, workflow: WorkflowRow, target: Any, signal: SignalRow) -> None:
    """The sender's side, under the lock: wake the step that is parked for the signal.

    Where the sender's code knows no such step, or knows it otherwise, a worker is asked to look: it may know better.
    """
    if workflow.state is not WorkflowState.READY:
        return
    workflow_class = runtime.class_named(workflow.type)
    now = runtime.now()
    for execution in read_of_workflow(session, ExecutionRow, workflow.id, step_executions.c.state == StepState.WAITING):
        step = None if workflow_class is None else workflow_class.definition.steps.get(execution.step_name)
        if step is None or not step.waits_for_signal:
            send_at_once(runtime, session, workflow, execution, now=now)
        elif _matches(step.wait_for, target, instance_of(session, Signal, signal)):
            _wake(session, execution, signal, now=now)
            store(runtime, session, workflow, execution, now=now)
            show(session, StepExecution, execution)
            return


def pending_names(session: Session, workflow_id: int) -> set[str]:
    """Return the names of the signals that no step was given."""
    pending = read_of_workflow(session, SignalRow, workflow_id, signals.c.state == SignalState.PENDING)
    return {signal.name for signal in pending}


def _wake(session: Session, execution: ExecutionRow, signal: SignalRow, *, now: datetime) -> None:
    claim(session, signal, execution, now=now)
    move_execution(execution, StepState.SCHEDULED, now=now)
    execution.change(scheduled_for=now, job_id=new_job_id())


def _save(session: Session, signal: SignalRow, *, now: datetime) -> None:
    save(session, signal, now=now)
    show(session, Signal, signal)


def _matches(matchers: Sequence[Matcher], workflow_object: Any, signal: Signal) -> bool:
    if all(isinstance(matcher, SignalMatcher) and matcher.predicate is None for matcher in matchers):
        return accepts(matchers, workflow_object, signal)
    session = Session.object_session(signal)
    assert session is not None
    with trial(session):
        return accepts(matchers, workflow_object, signal)


def _held_or_oldest(attempt: Attempt, workflow_object: Any) -> SignalRow | None:
    """Find the signal that the step holds since an earlier attempt at it, or the oldest pending one that matches."""
    session, step = attempt.session, attempt.step
    found = _unsettled(session, attempt.workflow, step.wait_for)
    if any(row.state is SignalState.CLAIMED for row in found):
        held = held_signal_id(session, attempt.workflow.id, step.name)
        for row in found:
            if row.id == held:
                return row
    pending = (row for row in found if row.state is SignalState.PENDING)
    matching = (row for row in pending if _matches(step.wait_for, workflow_object, instance_of(session, Signal, row)))
    return next(matching, None)


def _unsettled(session: Session, workflow: WorkflowRow, matchers: Sequence[Matcher]) -> list[SignalRow]:
    where: list[ColumnElement[bool]] = [signals.c.state.in_((SignalState.PENDING, SignalState.CLAIMED))]
    if all(isinstance(matcher, SignalMatcher) for matcher in matchers):
        where.append(signals.c.name.in_([matcher.name for matcher in matchers if isinstance(matcher, SignalMatcher)]))
    return read_of_workflow(session, SignalRow, workflow.id, *where)


def _rows_of(session: Session, signal_id: int | None) -> list[SignalRow]:
    return [] if signal_id is None else read_current(session, SignalRow, signals.c.id == signal_id)


def _is_unresolved(session: Session, signal: SignalRow, settled: ExecutionRow) -> bool:
    """Whether another step that was given the signal has yet to end cleanly; the latest attempt at a step decides."""
    attached = read_of_workflow(
        session,
        ExecutionRow,
        signal.workflow_id,
        step_executions.c.signal_id == signal.id,
        step_executions.c.id != settled.id,
    )
    latest = {execution.step_name: execution.state for execution in attached}
    open_rows = any(execution.state in OPEN_STEP_STATES for execution in attached)
    latest.pop(settled.step_name, None)
    return open_rows or any(state in (StepState.FAILED, StepState.CANCELED) for state in latest.values())
