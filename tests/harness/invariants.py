"""What must hold of the library's rows at every moment, whatever happened: asked of the database itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import select

from flask_geneva.definition.signal_matchers import SignalMatcher
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.records.tables import signals, step_executions, workflows
from flask_geneva.states import (
    ENDED_WORKFLOW_STATES,
    OPEN_STEP_STATES,
    Outcome,
    SignalState,
    StepState,
    WorkflowState,
)
from tests.harness.models import LedgerEntry, db

Rows = list[Any]


def broken() -> list[str]:
    """Every invariant that does not hold, in words; empty when all is well. Reads only."""
    db.session.rollback()
    with db.engine.connect() as connection:
        # One moment for all four reads, also while others write.
        if connection.dialect.name != "sqlite":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        flows, attempts, sent = (
            list(connection.execute(select(table).order_by(table.c.id)))
            for table in (workflows, step_executions, signals)
        )
        ledger = list(connection.execute(select(LedgerEntry.execution_id, LedgerEntry.step)))
    of_flow = {flow.id: [each for each in attempts if each.workflow_id == flow.id] for flow in flows}
    found: list[str] = []
    for flow in flows:
        own_signals = [each for each in sent if each.workflow_id == flow.id]
        found += [f"workflow #{flow.id}: {problem}" for problem in _problems(flow, of_flow[flow.id], own_signals)]
    found += [f"signal #{each.id}: {problem}" for each in sent for problem in _signal_problems(each, attempts)]
    return found + list(_ledger_problems(attempts, ledger))


def _problems(flow: Any, attempts: Rows, sent: Rows) -> Iterator[str]:
    still_open = [each for each in attempts if each.state in OPEN_STEP_STATES]
    states = [str(each.state) for each in still_open]
    if len(still_open) > 1:
        yield f"has {len(still_open)} open executions: {states}"
    if flow.state in ENDED_WORKFLOW_STATES and still_open:
        yield f"is {flow.state}, and has an open execution: {states}"
    if flow.state in (WorkflowState.READY, WorkflowState.PERFORMING) and not still_open:
        yield f"is {flow.state}, and nothing is open, so that it is stuck"
    if (flow.state is WorkflowState.PERFORMING) is not (StepState.IN_PROGRESS in [each.state for each in still_open]):
        yield f"is {flow.state}, and its open execution is {states}"
    is_at_rest = flow.state not in (WorkflowState.READY, WorkflowState.PERFORMING)
    if is_at_rest is not (flow.transitioned_at is not None):
        yield f"is {flow.state}, and transitioned_at is {flow.transitioned_at}"
    if flow.pending_request is not None and flow.state is not WorkflowState.PERFORMING:
        yield f"is {flow.state}, and a {flow.pending_request} is pending"
    if flow.state is WorkflowState.READY:
        yield from _missed_meetings(flow, still_open, sent)


def _missed_meetings(flow: Any, still_open: Rows, sent: Rows) -> Iterator[str]:
    """A step that is parked beside a signal that it waits for: a lost wake-up."""
    workflow_class = current_runtime().class_named(flow.type)
    pending = {each.name for each in sent if each.state is SignalState.PENDING}
    for attempt in still_open:
        step = workflow_class and workflow_class.definition.steps.get(attempt.step_name)
        if attempt.state is not StepState.WAITING or not step or not step.waits_for_signal:
            continue
        wanted = {each.name for each in step.wait_for if isinstance(each, SignalMatcher) and each.predicate is None}
        if wanted & pending:
            yield f"is parked on {attempt.step_name} beside a pending signal: {wanted & pending}"


def _signal_problems(signal: Any, attempts: Rows) -> Iterator[str]:
    holders = [each for each in attempts if each.signal_id == signal.id]
    # A part that goes on from another one has the signal from it, and not by a claim of its own.
    claims = sum(each.continues_from_id is None for each in holders)
    if signal.claimed != claims:
        yield f"was claimed {signal.claimed} times by its count, and {claims} times by its executions"
    if (signal.state is SignalState.PENDING) is not (signal.claimed == 0):
        yield f"is {signal.state}, and was claimed {signal.claimed} times"
    settled = sum(each.outcome in (Outcome.SUCCESS, Outcome.SKIPPED) for each in holders)
    # An operator who skips a step of a paused workflow settles the signal of its last attempt, which stays as it ended.
    passed_over = sum(each.outcome in (Outcome.FAILED, Outcome.CANCELED, Outcome.WORKFLOW_PAUSED) for each in holders)
    if not settled <= signal.consumed <= settled + passed_over:
        yield f"was settled {signal.consumed} times by its count, and {settled} times by its executions"
    if signal.state is SignalState.CONSUMED and not signal.consumed:
        yield "is consumed, and no execution has settled it"


def _ledger_problems(attempts: Rows, ledger: Rows) -> Iterator[str]:
    """A mark of an attempt that failed or died was kept, or a mark was made twice."""
    marks = Counter((entry.execution_id, entry.step) for entry in ledger)
    by_id = {each.id: each for each in attempts}
    for (execution_id, mark), number in marks.items():
        if number > 1:
            yield f"execution #{execution_id}: '{mark}' was written down {number} times"
        attempt = by_id.get(execution_id)
        if attempt is None or attempt.completed_iterations:
            continue
        if attempt.outcome in (Outcome.FAILED, Outcome.RECOVERED):
            yield f"execution #{execution_id} has {attempt.outcome}, and its '{mark}' was kept"
