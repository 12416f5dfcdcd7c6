"""The three phases in order, with their commits, and the straight run from one due step to the next."""

from __future__ import annotations

import logging
import time

from sqlalchemy.exc import DBAPIError

from flask_geneva import events
from flask_geneva.definition.verdicts import Verdict
from flask_geneva.engine.attempt import Attempt, run_again
from flask_geneva.engine.doubt import Doubt
from flask_geneva.engine.finalization import conclude
from flask_geneva.engine.outbox import announce_after_commit, announce_rest_after_commit, noted
from flask_geneva.engine.outgoing_signals import dispatch
from flask_geneva.engine.performance import fail, perform
from flask_geneva.engine.preparation import Ended, Start, prepare
from flask_geneva.engine.run import Run
from flask_geneva.engine.scheduling import job_options, store
from flask_geneva.engine.transactions import fresh_reads, is_transient, lock_both, lock_execution, retry_transient
from flask_geneva.errors import MigrationMissing
from flask_geneva.records.saving import StaleRow
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.transitions import move_execution, move_workflow
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import StepState, WorkflowState

logger = logging.getLogger(__name__)


def execute(run: Run, execution_id: int) -> None:
    """Run one execution, and straight on what is due after it. Commits; holds no lock while a step's code runs.

    The error of a step that its policy reports is left in ``run.error_to_report`` after everything is committed.
    A second call for the same execution does nothing.
    """
    with fresh_reads(run.session):
        _execute(run, execution_id)


def _execute(run: Run, execution_id: int) -> None:
    try:
        attempt = _begin_twice(run, execution_id)
    except (DBAPIError, MigrationMissing) as error:
        if is_transient(error):
            raise
        attempt = _begin_with(run, execution_id, error)
    while attempt is not None:
        started = time.monotonic()
        events.send(events.step_started, run.runtime.app, **attempt.facts)
        verdict = perform(run, attempt)
        attempt.seconds = time.monotonic() - started
        attempt = _end(run, attempt, verdict)


def end_from_outside(run: Run, workflow: WorkflowRow, execution: ExecutionRow, verdict: Verdict) -> None:
    """End an execution that no worker has in hand, and schedule what follows; both rows are locked. Flushes."""
    follower = conclude(run, workflow, execution, verdict)
    run.save_soon(execution)
    _leave(run, workflow, follower)
    announce_rest_after_commit(run.runtime, run.session, workflow)


def _begin_twice(run: Run, execution_id: int) -> Attempt | None:
    """Begin, and once more where the database lacks what it had: the next connection knows that, and may do without."""

    def begin() -> Attempt | None:
        return _begin(run, execution_id)

    try:
        return retry_transient(run.session, begin)
    except MigrationMissing:
        run.session.rollback()
        return retry_transient(run.session, begin)


def _begin_with(run: Run, execution_id: int, error: DBAPIError | MigrationMissing) -> Attempt | None:
    """Begin again, in a transaction that can be written to, and let the policies decide about the error."""

    def begin() -> Attempt | None:
        run.obstacle = error
        return _begin(run, execution_id)

    run.session.rollback()
    return retry_transient(run.session, begin)


def _begin(run: Run, execution_id: int) -> Attempt | None:
    run.begin()
    run.is_ahead = False
    pair = lock_execution(run.session, execution_id)
    if pair is None:
        run.session.rollback()
        logger.warning("There is no step execution #%s any more; its job has nothing to do.", execution_id)
        return None
    if _came_to_pass(run):
        return _settle(run)
    _, execution = pair
    attempt = _advance(run, *pair)
    _commit(run, execution, attempt)
    return attempt


def _end(run: Run, attempt: Attempt, verdict: Verdict) -> Attempt | None:
    """Commit the step's writes with its ending; where the database refuses, end it by that error instead."""
    try:
        return _finalise(run, attempt, verdict)
    except StaleRow:
        _fenced(run, attempt)
        return None
    except Exception as error:
        run.session.rollback()
        if is_transient(error):
            attempt.logger.warning("The step's commit was not answered, or was refused for now: %s", error)
            attempt.outgoing = []
            second: Verdict = run_again(error)
        else:
            second = fail(run, attempt, error)
    return retry_transient(run.session, lambda: _finalise(run, attempt, second))


def _finalise(run: Run, attempt: Attempt, verdict: Verdict) -> Attempt | None:
    run.session.flush()
    # What the step has loaded may be old by now, and the next step's conditions must not see it.
    run.session.expunge_all()
    dispatch(attempt)
    run.begin()
    pair = lock_both(run.session, attempt.workflow.id, attempt.execution.id)
    if _came_to_pass(run):
        return _settle(run)
    if pair is None or pair[1].state is not StepState.IN_PROGRESS or pair[0].state is not WorkflowState.PERFORMING:
        _fenced(run, attempt)
        return None
    workflow, execution = pair
    follower = conclude(run, workflow, execution, verdict)
    _tell_end(attempt, verdict, workflow, execution)
    run.save_soon(execution)
    _note_error(run, verdict)
    attempt_ahead = _follow(run, workflow, execution, follower)
    announce_rest_after_commit(run.runtime, run.session, workflow)
    _commit(run, execution, attempt_ahead)
    return attempt_ahead


def _came_to_pass(run: Run) -> bool:
    return run.doubt is not None and run.doubt.came_to_pass(run.session)


def _settle(run: Run) -> Attempt | None:
    """Go on as if the answer to the commit had come."""
    doubt, run.doubt = run.doubt, None
    assert doubt is not None
    run.session.rollback()
    logger.info("The commit came to pass whose answer was lost; step execution #%s goes on.", doubt.execution.id)
    return doubt.settle()


def _fenced(run: Run, attempt: Attempt) -> None:
    run.session.rollback()
    attempt.logger.warning("Fenced: the execution was taken from this worker, so what it did is rolled back.")


def _follow(run: Run, workflow: WorkflowRow, ended: ExecutionRow, follower: ExecutionRow | None) -> Attempt | None:
    if follower is None or not _goes_straight_on(run, workflow, ended, follower):
        _leave(run, workflow, follower)
        return None
    run.is_ahead = True
    return _advance(run, workflow, follower)


def _advance(run: Run, workflow: WorkflowRow, execution: ExecutionRow) -> Attempt | None:
    """Prepare the execution, and what follows it while it ends without running; save; return what is to run."""
    while True:
        decision = prepare(run, workflow, execution)
        if isinstance(decision, Start):
            return _start(run, decision.attempt)
        if not isinstance(decision, Ended):
            _leave(run, workflow, execution)
            return None
        if decision.attempt is not None:
            # A handler's, since what conditions send is rolled back.
            dispatch(decision.attempt)
        follower = conclude(run, workflow, execution, decision.verdict)
        run.save_soon(execution)
        _note_error(run, decision.verdict)
        if follower is None or not _goes_straight_on(run, workflow, execution, follower):
            _leave(run, workflow, follower)
            announce_rest_after_commit(run.runtime, run.session, workflow)
            return None
        execution, run.is_ahead = follower, True


def _start(run: Run, attempt: Attempt) -> Attempt:
    workflow, execution = attempt.workflow, attempt.execution
    move_execution(execution, StepState.IN_PROGRESS, now=run.now)
    if run.job_id is not None:
        execution.change(job_id=run.job_id)
    move_workflow(workflow, WorkflowState.PERFORMING, now=run.now)
    workflow.change(current_step_name=execution.step_name)
    if workflow.started_at is None:
        workflow.change(started_at=run.now)
    run.save(execution, workflow)
    return attempt


def _leave(run: Run, workflow: WorkflowRow, execution: ExecutionRow | None) -> None:
    """Save, and leave what comes next to a job of its own."""
    run.save(execution, workflow)
    store(run.runtime, run.session, workflow, execution, now=run.now)


def _goes_straight_on(run: Run, workflow: WorkflowRow, ended: ExecutionRow, follower: ExecutionRow) -> bool:
    """Whether this job may run the follower: due, of the same options, no error to report, and time left."""
    if workflow.state is not WorkflowState.READY or run.error_to_report is not None or not run.has_time_left:
        return False
    if follower.scheduled_for > run.now and not run.ignores_time:
        return False
    runtime = run.runtime
    if follower.step_name == ended.step_name:
        return True
    return job_options(runtime, workflow, ended.step_name) == job_options(runtime, workflow, follower.step_name)


def _note_error(run: Run, verdict: Verdict) -> None:
    run.last_error = getattr(verdict, "error", None)
    if run.last_error is not None and getattr(verdict, "report", False):
        run.error_to_report = run.last_error


def _commit(run: Run, execution: ExecutionRow, begun: Attempt | None) -> None:
    """Forget every loaded object and commit: nothing in memory survives between steps, nothing is to be expired."""
    session = run.session
    session.flush()
    session.expunge_all()
    run.doubt = Doubt(execution, begun, noted(session))
    session.commit()
    run.doubt = None


def _tell_end(attempt: Attempt, verdict: Verdict, workflow: WorkflowRow, execution: ExecutionRow) -> None:
    """Tell of the end once it is committed; ``workflow_state`` is before the next step begins."""
    announce_after_commit(
        attempt.runtime,
        attempt.session,
        events.step_finished,
        **attempt.facts,
        outcome=execution.outcome,
        step_state=execution.state,
        workflow_state=workflow.state,
        duration=attempt.seconds,
        exception=getattr(verdict, "error", None),
    )
