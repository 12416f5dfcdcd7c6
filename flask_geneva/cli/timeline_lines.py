"""The lines that tell of one attempt at a step, or of one signal."""

from __future__ import annotations

import json
from collections.abc import Iterator

from flask_geneva.cli.printing import first_line, moment
from flask_geneva.engine.progress import progress_of
from flask_geneva.records.signal import Signal
from flask_geneva.records.step_execution import StepExecution
from flask_geneva.states import StepState


def lines_of(entry: StepExecution | Signal, *, with_traceback: bool = False) -> Iterator[str]:
    """Tell of an entry of a timeline."""
    return _signal_lines(entry) if isinstance(entry, Signal) else _attempt_lines(entry, with_traceback)


def _attempt_lines(attempt: StepExecution, with_traceback: bool) -> Iterator[str]:
    outcome = "" if attempt.outcome is None or attempt.outcome.value == attempt.state.value else f" ({attempt.outcome})"
    yield f"{moment(attempt.created_at)}  {attempt.step_name} #{attempt.id}: {attempt.state}{outcome}{_times(attempt)}"
    if attempt.completed_iterations:
        yield f"    {progress_of(attempt, attempt.continues_from)}, cursor {json.dumps(attempt.stored_cursor)}"
    if attempt.signal_id is not None:
        yield f"    with signal #{attempt.signal_id}"
    details = dict(attempt.details)
    if "reattempt_reason" in details:
        yield f"    to be tried again ({details['reattempt_reason']})"
    error = details.get("exception") or {"class": attempt.error_class_name, "message": attempt.error_message}
    if error["class"]:
        yield f"    {error['class']}: {first_line(error['message'])}"
    if with_traceback:
        yield from (f"    | {line}" for line in error.get("backtrace") or ())


def _times(attempt: StepExecution) -> str:
    parts = []
    if attempt.state is StepState.SCHEDULED:
        parts.append(f"for {moment(attempt.scheduled_for)}")
    if attempt.state is StepState.WAITING:
        parts.append(f"since {moment(attempt.waiting_since)}")
        if attempt.deadline_at is not None:
            parts.append(f"until {moment(attempt.deadline_at)}")
    if attempt.started_at is not None:
        parts.append(f"started {moment(attempt.started_at)}")
        if attempt.finished_at is not None:
            parts.append(f"ran {(attempt.finished_at - attempt.started_at).total_seconds():.3f} s")
    return f", {', '.join(parts)}" if parts else ""


def _signal_lines(signal: Signal) -> Iterator[str]:
    key = f", key {signal.idempotency_key}" if signal.idempotency_key is not None else ""
    yield f"{moment(signal.created_at)}  signal '{signal.name}' #{signal.id}: {signal.state}{key}"
    yield f"    {json.dumps(signal.stored_payload)}"
