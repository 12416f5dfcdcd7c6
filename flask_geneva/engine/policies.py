"""From an error to a verdict: the definition says which policy applies, a handler of the user's may decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flask_geneva.definition.exception_policies import AppliedPolicy, decide, policy_for
from flask_geneva.definition.flow_control import FlowControl
from flask_geneva.definition.verdicts import Canceled, Finished, Paused, Reattempted, Skipped, Verdict
from flask_geneva.engine.attempt import Attempt
from flask_geneva.engine.run import Run


def verdict_on(run: Run, attempt: Attempt, error: BaseException, *, reason: str = "exception_policy") -> Verdict:
    """Say how an attempt ends that met an error. The step's own writes must have been rolled back.

    A handler's writes stay in the session's transaction when it used a verb, and are taken back when it did not.
    """
    try:
        applied = policy_for(attempt.step, attempt.workflow_class.definition.exception_policies, error)
        if applied.policy.handler is None:
            return decide(applied, error, attempt.execution.error_reattempts, reason=reason)
    except Exception as failure:
        # A predicate in matching= or a wait function that raises is a fault of the policy: a person must look at both.
        attempt.logger.exception("The exception policy failed itself")
        _chain(failure, error)
        return Paused(error=error, report=True)
    return _ask_handler(run, attempt, applied, error, reason)


def _ask_handler(run: Run, attempt: Attempt, applied: AppliedPolicy, error: BaseException, reason: str) -> Verdict:
    handler = applied.policy.handler
    assert handler is not None
    savepoint = run.session.begin_nested()
    try:
        with attempt.bound() as workflow_object:
            handler(workflow_object, error)
    except FlowControl as control:
        savepoint.commit()
        return _of_handler(attempt, applied, control.verdict, error, reason)
    except Exception as failure:
        attempt.logger.exception("The exception handler failed itself")
        _chain(failure, error)
    else:
        attempt.logger.warning("The exception handler ended without a verb, so the workflow is paused.")
    savepoint.rollback()
    return Paused(error=error, report=applied.policy.report != "never")


def _of_handler(
    attempt: Attempt, applied: AppliedPolicy, verdict: Verdict, error: BaseException, reason: str
) -> Verdict:
    report = applied.policy.report == "always"
    if isinstance(verdict, Finished):
        return verdict
    if isinstance(verdict, Reattempted):
        if applied.cap is not None and attempt.execution.error_reattempts >= applied.cap:
            return Paused(error=error, report=applied.policy.report != "never")
        return replace(verdict, reason=reason, error=error, report=report)
    if isinstance(verdict, Skipped | Paused | Canceled):
        return replace(verdict, error=error, report=applied.policy.report != "never")
    return verdict


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
