"""Where a signal and a step meet: delivery wakes a parked step, the gate attaches a buffered signal or parks the step.

Both sides hold the workflow's lock, so that whichever comes second finds what the first has left.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from flask_geneva import events
from flask_geneva.definition.signal_matchers import Matcher, SignalMatcher, accepts
from flask_geneva.definition.steps import StepDefinition
from flask_geneva.engine.attempt import Attempt, running_in
from flask_geneva.engine.outbox import announce_after_commit
from flask_geneva.engine.runtime import Runtime, new_job_id
from flask_geneva.engine.scheduling import store
from flask_geneva.engine.transactions import (
    current_of_workflow,
    lock_workflow,
    read_current,
    read_of_workflow,
    read_workflow,
    trial,
)
from flask_geneva.errors import InvalidSignal, InvalidStateError, SignalPayloadTooLarge, WorkflowNotOngoing
from flask_geneva.records.instances import free_instance_of, instance_of, show
from flask_geneva.records.saving import save
from flask_geneva.records.signal import Signal, SignalRow
from flask_geneva.records.step_execution import ExecutionRow, StepExecution
from flask_geneva.records.tables import signals, step_executions
from flask_geneva.records.transitions import move_execution, move_signal, new_signal
from flask_geneva.records.values import check_size, encode
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import (
    ENDED_WORKFLOW_STATES,
    OPEN_STEP_STATES,
    RUNNABLE_WORKFLOW_STATES,
    SignalState,
    StepState,
)

logger = logging.getLogger(__name__)

MAX_NAME_LENGTH = 255


def deliver(runtime: Runtime, session: Session, target: Any, name: str, payload: object, key: str | None) -> Signal:
    """Store a signal for the workflow and wake the step that waits for it, all or nothing; flush.

    :param target: the sender's own workflow object; predicates of matchers see it.
    """
    _check_text(name, "the name of a signal", required=True)
    _check_text(key, "an idempotency key", required=False)
    structure = encode(payload)
    check_size(
        structure,
        runtime.settings.max_signal_payload_size,
        SignalPayloadTooLarge,
        "GENEVA_MAX_SIGNAL_PAYLOAD_SIZE",
        f"the payload of signal '{name}'",
    )
    sender = running_in(session)
    with session.begin_nested():
        workflow = (lock_workflow if sender is None else read_workflow)(session, target.id)
        if workflow is None:
            raise InvalidStateError(
                f"Cannot deliver signal '{name}' to workflow #{target.id}: it does not exist any more."
            )
        signal = _store_or_find(runtime, session, workflow, name, structure, key)
        if signal.duplicate_delivery:
            return signal
        if sender is None:
            meet(runtime, session, workflow, target, signal)
    if sender is not None and target.id != sender.workflow.id:
        # The step's commit lets them meet, see outgoing_signals; its own workflow performs, so nothing is parked there.
        sender.outgoing.append((target.id, signal.id))
    return signal


def attach_or_park(attempt: Attempt, workflow_object: Any, *, now: datetime) -> bool:
    """The receiver's side, under the lock: True when the step has its signal, False when it is parked."""
    execution, step = attempt.execution, attempt.step
    if execution.signal_id is not None:
        return True
    for row in _pending(attempt.session, attempt.workflow, step.wait_for):
        candidate = instance_of(attempt.session, Signal, row)
        if _matches(step.wait_for, workflow_object, candidate):
            claim(attempt.session, row, execution, now=now)
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
    execution = attempt.execution
    for row in _pending(attempt.session, attempt.workflow, attempt.step.wait_for):
        candidate = instance_of(attempt.session, Signal, row)
        if _matches(attempt.step.wait_for, workflow_object, candidate):
            _wake(attempt.session, execution, row, now=now)
            return True
    return False


def held_signal_id(session: Session, workflow_id: int, step_name: str) -> int | None:
    """Return the signal that an earlier attempt at the step was given and did not finish with."""
    statement = (
        select(signals.c.id, signals.c.state)
        .join(step_executions, step_executions.c.signal_id == signals.c.id)
        .where(step_executions.c.workflow_id == workflow_id, step_executions.c.step_name == step_name)
        .order_by(step_executions.c.id.desc())
        .limit(1)
    )
    statement = current_of_workflow(session, statement, step_executions)
    row = session.connection().execute(statement).one_or_none()
    return row.id if row is not None and row.state is SignalState.CLAIMED else None


def _store_or_find(
    runtime: Runtime, session: Session, workflow: WorkflowRow, name: str, structure: Any, key: str | None
) -> Signal:
    if workflow.state in ENDED_WORKFLOW_STATES:
        known = _known(session, workflow.id, name, key)
        if known is None:
            raise WorkflowNotOngoing(workflow.type, workflow.id, workflow.state, name)
        return _duplicate(session, known, structure)
    row = new_signal(workflow_id=workflow.id, name=name, idempotency_key=key, payload=structure)
    try:
        # Insert first and look afterwards: a look for what is not there would lock a gap of MySQL's index.
        with session.begin_nested():
            save(session, row, now=runtime.now())
    except IntegrityError:
        known = _known(session, workflow.id, name, key)
        if known is None:
            raise
        return _duplicate(session, known, structure)
    announce_after_commit(
        runtime,
        session,
        events.signal_received,
        workflow_id=workflow.id,
        workflow_class=workflow.type,
        signal_id=row.id,
        signal_name=name,
    )
    return instance_of(session, Signal, row)


def _known(session: Session, workflow_id: int, name: str, key: str | None) -> SignalRow | None:
    if key is None:
        return None
    found = read_current(
        session,
        SignalRow,
        signals.c.workflow_id == workflow_id,
        signals.c.name == name,
        signals.c.idempotency_key == key,
    )
    return found[0] if found else None


def _duplicate(session: Session, row: SignalRow, structure: Any) -> Signal:
    if row.payload != structure:
        logger.warning(
            "Signal '%s' came again to workflow #%s with key %r and another payload; the first one stands.",
            row.name,
            row.workflow_id,
            row.idempotency_key,
        )
    # An object of its own: the one that the first delivery returned must not turn into a duplicate.
    repeated = free_instance_of(session, Signal, row)
    repeated.duplicate_delivery = True
    return repeated


def meet(runtime: Runtime, session: Session, workflow: WorkflowRow, target: Any, signal: Signal) -> None:
    """The sender's side, under the lock: wake the steps that are parked for the signal."""
    workflow_class = runtime.class_named(workflow.type)
    if workflow.state not in RUNNABLE_WORKFLOW_STATES or workflow_class is None:
        return
    now = runtime.now()
    is_parked = step_executions.c.state == StepState.WAITING
    parked = read_of_workflow(session, ExecutionRow, workflow.id, is_parked)
    row = SignalRow({key: getattr(signal, "stored_payload" if key == "payload" else key) for key in signals.c.keys()})  # noqa: SIM118
    for execution in parked:
        step = workflow_class.definition.steps.get(execution.step_name)
        if step is None or not step.waits_for_signal or not _matches(step.wait_for, target, signal):
            continue
        _wake(session, execution, row, now=now)
        store(runtime, session, workflow, execution, now=now)
        show(session, StepExecution, execution)


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


def _pending(session: Session, workflow: WorkflowRow, matchers: Sequence[Matcher]) -> Iterable[SignalRow]:
    where: list[ColumnElement[bool]] = [signals.c.state == SignalState.PENDING]
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


def _check_text(value: str | None, what: str, *, required: bool) -> None:
    if value is None and not required:
        return
    if not isinstance(value, str):
        raise InvalidSignal(f"Cannot deliver a signal: {what} must be a string, not {value!r}.")
    if (required and not value) or len(value) > MAX_NAME_LENGTH:
        raise InvalidSignal(
            f"Cannot deliver a signal: {what} must have 1 to {MAX_NAME_LENGTH} characters, this one has {len(value)}."
        )
