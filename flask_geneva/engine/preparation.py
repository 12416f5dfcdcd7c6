"""Phase 1, under the workflow's lock: may this execution run? The answer is a start, a rest, or a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask_geneva import events
from flask_geneva.definition.flow_control import FlowControl
from flask_geneva.definition.signal_matchers import SignalMatcher, describe
from flask_geneva.definition.steps import StepDefinition
from flask_geneva.definition.verdicts import Canceled, Paused, Skipped, Verdict
from flask_geneva.engine.attempt import Attempt
from flask_geneva.engine.policies import verdict_on
from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import new_job_id
from flask_geneva.engine.signal_delivery import attach_or_park, meet_again, pending_names
from flask_geneva.engine.transactions import Pair, is_spent_by, is_transient, trial
from flask_geneva.errors import DeadlineExceeded, MigrationMissing, StepNotDefinedError, WorkflowNotDefinedError
from flask_geneva.logs import logger_for
from flask_geneva.records import heroes
from flask_geneva.records.later_columns import refuse_lacking
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.tables import RESUMABLE_COLUMNS, SIGNAL_COLUMNS
from flask_geneva.records.transitions import move_execution
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import RUNNABLE_WORKFLOW_STATES, Outcome, StepState


@dataclass(frozen=True)
class Start:
    """The step's code is to run."""

    attempt: Attempt


@dataclass(frozen=True)
class Rest:
    """Nothing is to run: the execution went on, is parked, or is not due yet."""


@dataclass(frozen=True)
class Ended:
    """The execution ends without having run; the attempt is None where its step or class is not known."""

    verdict: Verdict
    attempt: Attempt | None = None


Decision = Start | Rest | Ended
REST = Rest()


def prepare(run: Run, workflow: WorkflowRow, execution: ExecutionRow) -> Decision:
    """Decide what becomes of an execution whose job has come. Both rows are locked; changes to them are not saved."""
    if execution.state is StepState.WAITING:
        return _when_parked(run, workflow, execution)
    if execution.state is not StepState.SCHEDULED:
        _log(run, workflow, execution, "Nothing to do: the execution is %s already.", execution.state)
        return REST
    if workflow.state not in RUNNABLE_WORKFLOW_STATES:
        _log(run, workflow, execution, "The workflow is %s, so the execution is canceled.", workflow.state)
        move_execution(execution, StepState.CANCELED, now=run.now, outcome=Outcome.CANCELED)
        return REST
    if not run.ignores_time and execution.scheduled_for > run.now:
        return _come_back_later(execution)
    return _with_definition(run, workflow, execution)


def _with_definition(run: Run, workflow: WorkflowRow, execution: ExecutionRow) -> Decision:
    workflow_class = run.runtime.class_named(workflow.type)
    if workflow_class is None:
        return Ended(Paused(error=WorkflowNotDefinedError(workflow.type, workflow.id), report=True))
    definition = workflow_class.definition
    step = definition.steps.get(execution.step_name)
    attempt = Attempt(run.runtime, run.session, workflow, execution, workflow_class, step)
    obstacle, run.obstacle = run.obstacle, None
    try:
        if obstacle is not None:
            raise obstacle
        if not definition.may_proceed_without_hero and _hero_is_gone(run, workflow):
            attempt.logger.info("The hero is gone, so the workflow is canceled.")
            return Ended(Canceled())
    except Exception as error:
        if obstacle is None and (is_transient(error) or is_spent_by(run.session, error)):
            raise
        return _by_policy(run, attempt, error)
    if step is None:
        return Ended(Paused(error=_vanished(workflow, execution, definition.steps.runnable), report=True))
    if step.removed:
        attempt.logger.info("The step was removed, so it is skipped.")
        return Ended(Skipped(), attempt)
    return _by_columns(run, attempt)


def _by_columns(run: Run, attempt: Attempt) -> Decision:
    """Begin no step that the database could not hold: what its kind needs came with a later revision."""
    try:
        if attempt.step.resumable:
            refuse_lacking(run.session.connection(), *RESUMABLE_COLUMNS)
        if attempt.step.waits_for_signal:
            refuse_lacking(run.session.connection(), *SIGNAL_COLUMNS)
    except MigrationMissing as missing:
        return _by_policy(run, attempt, missing)
    return _by_conditions(run, attempt)


def _by_conditions(run: Run, attempt: Attempt) -> Decision:
    step, conditions = attempt.step, attempt.workflow_class.definition.cancel_conditions
    asks_signal = step.waits_for_signal and attempt.execution.signal_id is None
    looks_inside = asks_signal and not all(_by_name(matcher) for matcher in step.wait_for)
    if not conditions and step.condition is None and not looks_inside:
        _tell(attempt, "passed")
        return _through_the_gate(run, attempt, None)
    # The user's code needs rows that it can see and may name.
    run.save(attempt.execution, attempt.workflow)
    try:
        with attempt.bound() as workflow_object:
            verdict = _evaluate(run, attempt, workflow_object)
            _tell(attempt, "passed" if verdict is None else type(verdict).__name__.lower())
            return _through_the_gate(run, attempt, workflow_object) if verdict is None else Ended(verdict, attempt)
    except FlowControl as control:
        _tell(attempt, type(control.verdict).__name__.lower())
        return Ended(control.verdict, attempt)
    except Exception as error:
        return _by_policy(run, attempt, error)


def _by_policy(run: Run, attempt: Attempt, error: Exception) -> Decision:
    """End the execution as the policies say; one that would run straight on is left to a job of its own.

    A handler may end the transaction, and must not take the ending of the step before along.
    """
    if run.is_ahead:
        attempt.logger.info("Could not be prepared straight on (%s), and is left to a job of its own.", error)
        return REST
    _tell(attempt, "exception", error)
    if isinstance(error, MigrationMissing):
        # No policy is meant for it: one that skips or cancels would do harm.
        return Ended(Paused(error=error, report=True), attempt)
    return Ended(verdict_on(run, attempt, error, reason="precondition"), attempt)


def _evaluate(run: Run, attempt: Attempt, workflow_object: Any) -> Verdict | None:
    conditions = attempt.workflow_class.definition.cancel_conditions
    if not conditions and attempt.step.condition is None:
        return None
    with trial(run.session):
        if any(condition.holds(workflow_object) for condition in conditions):
            return Canceled()
        if attempt.step.condition is not None and attempt.step.condition.holds(workflow_object):
            return Skipped()
    return None


def _through_the_gate(run: Run, attempt: Attempt, workflow_object: Any) -> Decision:
    if attempt.step.waits_for_signal and not attach_or_park(attempt, workflow_object, now=run.now):
        attempt.logger.info("Parked until %s arrives.", describe(attempt.step.wait_for))
        return REST
    return Start(attempt)


def _when_parked(run: Run, workflow: WorkflowRow, execution: ExecutionRow) -> Decision:
    """A job that finds a parked row is its deadline's, or of a signal that came where the step was not known so.

    Under the lock no signal can win beside the deadline.
    """
    if workflow.state not in RUNNABLE_WORKFLOW_STATES:
        return REST
    is_past = execution.deadline_at is not None and execution.deadline_at <= run.now
    workflow_class = run.runtime.class_named(workflow.type)
    step = None if workflow_class is None else workflow_class.definition.steps.get(execution.step_name)
    if workflow_class is None or step is None or not step.waits_for_signal:
        is_due = is_past or bool(pending_names(run.session, workflow.id))
        return _now_due(run, workflow, execution) if is_due else _go_on_waiting(execution)
    attempt = Attempt(run.runtime, run.session, workflow, execution, workflow_class, step)
    try:
        if _meets_again(run, attempt):
            return _with_definition(run, workflow, execution)
    except Exception as error:
        if is_transient(error):
            raise
        move_execution(execution, StepState.SCHEDULED, now=run.now)
        return _by_policy(run, attempt, error)
    if not is_past:
        return _go_on_waiting(execution)
    verdict = on_deadline(attempt, run)
    return _with_definition(run, workflow, execution) if verdict is None else Ended(verdict, attempt)


def _now_due(run: Run, workflow: WorkflowRow, execution: ExecutionRow) -> Decision:
    move_execution(execution, StepState.SCHEDULED, now=run.now)
    return _with_definition(run, workflow, execution)


def _go_on_waiting(execution: ExecutionRow) -> Decision:
    return REST if execution.deadline_at is None else _come_back_later(execution)


def _meets_again(run: Run, attempt: Attempt) -> bool:
    """Look once more for a signal that the parked step waits for."""
    if not pending_names(run.session, attempt.workflow.id):
        return False
    if all(_by_name(matcher) for matcher in attempt.step.wait_for):
        return meet_again(attempt, None, now=run.now)
    run.save(attempt.execution, attempt.workflow)
    with attempt.bound() as workflow_object:
        return meet_again(attempt, workflow_object, now=run.now)


def on_deadline(attempt: Attempt, run: Run) -> Verdict | None:
    """End the wait of a parked execution as its step's ``on_deadline`` says; None: it is due, without a signal."""
    step = attempt.step
    attempt.logger.info("The deadline passed: %s.", step.on_deadline)
    error = DeadlineExceeded(attempt.workflow.type, attempt.workflow.id, step.name, describe(step.wait_for))
    if step.on_deadline == "run":
        move_execution(attempt.execution, StepState.SCHEDULED, now=run.now)
        attempt.execution.note(deadline_passed=True)
        return None
    verdicts: dict[str, Callable[[], Verdict]] = {
        "pause": lambda: Paused(error=error, report=True),
        "skip": Skipped,
        "cancel": Canceled,
    }
    return verdicts[step.on_deadline]()


def _come_back_later(execution: ExecutionRow) -> Decision:
    """After an early job another is sent for the right moment; its own id is spent."""
    execution.change(job_id=new_job_id())
    return REST


def _hero_is_gone(run: Run, workflow: WorkflowRow) -> bool:
    if workflow.hero_type is None or workflow.hero_id is None:
        return True
    return not heroes.exists(run.session, workflow.hero_type, workflow.hero_id)


def _vanished(workflow: WorkflowRow, execution: ExecutionRow, runnable: list[StepDefinition]) -> StepNotDefinedError:
    return StepNotDefinedError(
        f"run {workflow.type} #{workflow.id}",
        workflow.type,
        execution.step_name,
        [step.name for step in runnable],
        workflow=workflow,
        execution=execution,
    )


def _by_name(matcher: object) -> bool:
    return isinstance(matcher, SignalMatcher) and matcher.predicate is None


def _tell(attempt: Attempt, outcome: str, error: Exception | None = None) -> None:
    """Tell subscribers how the conditions were answered."""
    if not events.precondition_evaluated.receivers:
        return
    events.send(events.precondition_evaluated, attempt.runtime.app, **attempt.facts, outcome=outcome, exception=error)


def _log(run: Run, workflow: WorkflowRow, execution: ExecutionRow, message: str, *arguments: object) -> None:
    logger_for(
        workflow_type=run.runtime.name_of(workflow.type),
        workflow_id=workflow.id,
        hero_type=workflow.hero_type,
        hero_id=workflow.hero_id,
        execution_id=execution.id,
        step_name=execution.step_name,
    ).info(message, *arguments)


__all__ = ["REST", "Decision", "Ended", "Pair", "Rest", "Start", "on_deadline", "prepare"]
