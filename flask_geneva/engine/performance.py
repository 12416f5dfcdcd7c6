"""Phase 2, without a lock: the hooks and the step's code, which end in exactly one verdict."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from flask_geneva.definition.flow_control import FlowControl
from flask_geneva.definition.verdicts import Completed, Verdict
from flask_geneva.engine.attempt import Attempt
from flask_geneva.engine.iteration import iteration_of
from flask_geneva.engine.policies import verdict_on
from flask_geneva.engine.run import Run
from flask_geneva.errors import StepTimeout

_HOOKS = ("before_step_execution", "around_step_execution", "after_step_execution")


def perform(run: Run, attempt: Attempt) -> Verdict:
    """Run the step and say how it ended. After an error the step's own writes are rolled back."""
    try:
        with attempt.bound() as workflow_object, run.time_limit.of_step():
            _perform(run, attempt, workflow_object)
    except FlowControl as control:
        return control.verdict
    except (Exception, StepTimeout) as error:
        return fail(run, attempt, error)
    return Completed()


def fail(run: Run, attempt: Attempt, error: BaseException) -> Verdict:
    """Take back what the step wrote and ask the policies about its error."""
    attempt.outgoing = []
    attempt.logger.info("The step met %s: %s", type(error).__name__, error)
    _take_back(run, attempt, error)
    return verdict_on(run, attempt, error)


def _perform(run: Run, attempt: Attempt, workflow_object: Any) -> None:
    perform_it = _call_with_hooks if _has_hooks(attempt) else _call
    try:
        perform_it(run, attempt, workflow_object)
    except FlowControl:
        if attempt.iteration is not None:
            # What the step wrote is kept, and with it how far it came.
            attempt.iteration.keep_place()
        raise


def _take_back(run: Run, attempt: Attempt, error: BaseException) -> None:
    if attempt.iteration is not None:
        attempt.iteration.forget()
    if isinstance(error, StepTimeout):
        # It may have come in the middle of a message to the database, so the connection is not used again.
        run.session.invalidate()
    else:
        run.session.rollback()


def _has_hooks(attempt: Attempt) -> bool:
    """Whether the class overrides a hook: without one no object of the execution need be made."""
    base = attempt.runtime.workflow_class
    return any(getattr(attempt.workflow_class, hook) is not getattr(base, hook) for hook in _HOOKS)


def _call_with_hooks(run: Run, attempt: Attempt, workflow_object: Any) -> None:
    execution = attempt.step_execution()
    workflow_object.before_step_execution(execution)
    around: AbstractContextManager[object] = workflow_object.around_step_execution(execution)
    entered = False
    try:
        with around:
            entered = True
            _call(run, attempt, workflow_object)
    except (FlowControl, Exception, StepTimeout) as error:
        _after_an_end(run, attempt, workflow_object, execution, error)
        raise
    if not entered:
        raise RuntimeError("around_step_execution did not run the step")
    workflow_object.after_step_execution(execution)


def _call(run: Run, attempt: Attempt, workflow_object: Any) -> None:
    method = getattr(workflow_object, attempt.step.method_name)
    if attempt.step.resumable:
        attempt.iteration = iteration_of(run, attempt)
        method(attempt.iteration)
    else:
        method()


def _after_an_end(run: Run, attempt: Attempt, workflow_object: Any, execution: Any, error: BaseException) -> None:
    """The after hook also follows a failure; where it fails itself, the step's own error is the one that counts."""
    try:
        workflow_object.after_step_execution(execution)
    except FlowControl:
        if not isinstance(error, FlowControl):
            # The hook's verb counts, but what the failed step wrote is taken back as after any error.
            _take_back(run, attempt, error)
        raise
    except Exception:
        if isinstance(error, FlowControl):
            raise
        attempt.logger.exception("after_step_execution failed after a failed step")
