"""From an error to a verdict: the definition says which policy applies, a handler of the user's may decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flask_geneva.definition.backoff import wait_before
from flask_geneva.definition.exception_policies import AppliedPolicy, decide, policy_for
from flask_geneva.definition.flow_control import FlowControl
from flask_geneva.definition.verdicts import Canceled, Finished, Paused, Reattempted, Skipped, Suspended, Verdict
from flask_geneva.engine.attempt import TRANSIENT, Attempt
from flask_geneva.engine.run import Run
from flask_geneva.engine.transactions import is_transient, undo

# In a row, where no policy says otherwise; the waits between them grow to a quarter of an hour.
MAX_TRANSIENT_ERRORS = 10


def verdict_on(run: Run, attempt: Attempt, error: BaseException, *, reason: str = "exception_policy") -> Verdict:
    """Say how an attempt ends that met an error. The step's own writes must have been rolled back.

    A handler's writes stay in the session's transaction when it used a verb, and are taken back when it did not.
    """
    try:
        applied = policy_for(attempt.step, attempt.workflow_class.definition.exception_policies, error)
        if applied.is_default and reason == "exception_policy" and is_transient(error):
            return _again(attempt, applied, error)
        if applied.policy.handler is None:
            return _counted(attempt, decide(applied, error, _granted(attempt), reason=reason))
    except Exception as failure:
        # A predicate in matching= or a wait function that raises is a fault of the policy: a person must look at both.
        attempt.logger.exception("The exception policy failed itself")
        _chain(failure, error)
        return Paused(error=error, report=True)
    return _ask_handler(run, attempt, applied, error, reason)


def _again(attempt: Attempt, applied: AppliedPolicy, error: BaseException) -> Verdict:
    """The database was away, or ended a deadlock: no fault of the step's, unless it goes on like that."""
    before = 0 if attempt.has_progressed else attempt.execution.stalled_runs
    if before >= MAX_TRANSIENT_ERRORS:
        return decide(applied, error, 0)
    attempt.logger.warning("The database refused the step for now, so it is run again: %s", error)
    wait = wait_before("exponential", before) if before else None
    return Reattempted(reason=TRANSIENT, error=error, wait=wait, progressed=attempt.has_progressed)


def _ask_handler(run: Run, attempt: Attempt, applied: AppliedPolicy, error: BaseException, reason: str) -> Verdict:
    verdict = None
    savepoint = run.session.begin_nested()
    try:
        verdict = _answer(attempt, applied, error)
        if verdict is not None and savepoint.is_active:
            savepoint.commit()
    except Exception as failure:
        # The handler itself, or the database that refuses what it wrote.
        verdict = None
        attempt.logger.exception("The exception handler failed itself")
        _chain(failure, error)
    undo(run.session, savepoint)
    if verdict is None:
        attempt.logger.warning("The exception handler came to no verb, so the workflow is paused.")
        return Paused(error=error, report=applied.policy.report != "never")
    return _of_handler(attempt, applied, verdict, error, reason)


def _answer(attempt: Attempt, applied: AppliedPolicy, error: BaseException) -> Verdict | None:
    handler = applied.policy.handler
    assert handler is not None
    try:
        with attempt.bound() as workflow_object:
            handler(workflow_object, error)
    except FlowControl as control:
        return control.verdict
    return None


def _of_handler(
    attempt: Attempt, applied: AppliedPolicy, verdict: Verdict, error: BaseException, reason: str
) -> Verdict:
    is_to_be_reported = applied.policy.report != "never"
    if isinstance(verdict, Suspended):
        # After an error it is another attempt from the cursor, and counts as one.
        verdict = Reattempted(wait=verdict.wait)
    if isinstance(verdict, Reattempted):
        if applied.cap is not None and _granted(attempt) >= applied.cap:
            return Paused(error=error, report=is_to_be_reported)
        report = applied.policy.report == "always"
        return _counted(attempt, replace(verdict, reason=reason, error=error, report=report))
    if isinstance(verdict, Skipped | Paused | Canceled | Finished):
        return replace(verdict, error=error, report=is_to_be_reported)
    return verdict


def _granted(attempt: Attempt) -> int:
    """Count the reattempts in a row so far; an attempt that came further is not in their row."""
    return 0 if attempt.has_progressed else attempt.execution.error_reattempts


def _counted(attempt: Attempt, verdict: Verdict) -> Verdict:
    return replace(verdict, progressed=attempt.has_progressed) if isinstance(verdict, Reattempted) else verdict


def _chain(failure: BaseException, error: BaseException) -> None:
    """Keep the handler's failure below the step's error, unless it stands there already."""
    tail: Any = error
    while tail.__cause__ is not None or (tail.__context__ is not None and not tail.__suppress_context__):
        tail = tail.__cause__ or tail.__context__
        if tail is failure:
            return
    if failure.__context__ is error:
        failure.__context__ = None
    tail.__cause__ = failure
