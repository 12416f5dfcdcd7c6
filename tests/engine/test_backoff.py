"""When the next attempt is due after an error."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from flask_geneva import ExceptionPolicy, StepConfigurationError, Workflow, step
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.testing import perform_next_step
from tests.engine.elsewhere import Plan
from tests.engine.flows import Boom, Other, boom, planned, reload, run_job, start
from tests.harness.models import Order, db


def wait_of_a_plan(attempt: int) -> Any:
    return planned("wait", attempt)


class BackoffFlow(Workflow[Order]):
    """Fails under every kind of wait."""

    @step(on_exception=ExceptionPolicy("reattempt", wait=90))
    def fixed(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("reattempt", wait=timedelta(minutes=5)))
    def fixed_as_a_timedelta(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("reattempt", wait=wait_of_a_plan))
    def called(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("reattempt", wait="polynomially_longer"))
    def polynomial(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("reattempt", wait="exponential", max_reattempts=None))
    def exponential(self) -> None:
        boom()

    @step(on_exception="reattempt")
    def at_once(self) -> None:
        boom()

    @step(
        on_exception=[
            ExceptionPolicy("reattempt", matching=Boom, wait=10),
            ExceptionPolicy("reattempt", matching=Other, wait=lambda attempt: attempt * 100),
        ]
    )
    def listed(self) -> None:
        raise planned("error", self)


def at(step_name: str) -> Workflow[Any]:
    workflow = start(BackoffFlow)
    workflow.pause()
    workflow.resume_at(step_name)
    db.session.commit()
    return workflow


def waits(workflow: Workflow[Any], number: int) -> list[float]:
    """Fail so often; the seconds between the end of each attempt and the time of the next."""
    for _ in range(number):
        perform_next_step(workflow)
    return [
        (retry.scheduled_for - failed.finished_at).total_seconds()
        for failed, retry in itertools.pairwise(workflow.execution_history)
        if failed.finished_at is not None and failed.outcome == "reattempted"
    ]


@pytest.mark.parametrize(("step_name", "seconds"), [("fixed", 90), ("fixed_as_a_timedelta", 300), ("at_once", 0)])
def test_a_fixed_wait_stays_the_same_and_none_is_none(app: Flask, step_name: str, seconds: int) -> None:
    # BKO-01, BKO-06, EXC-06, B-22, B-23
    assert waits(at(step_name), 3) == [seconds] * 3


def test_a_callable_is_given_the_number_of_the_attempt(app: Flask, plan: Plan) -> None:
    # BKO-02
    plan["wait"] = lambda attempt: attempt * 10

    assert waits(at("called"), 3) == [10, 20, 30]


def test_a_callable_begins_anew_after_an_operators_verb(app: Flask, plan: Plan) -> None:
    plan["wait"] = lambda attempt: attempt * 10
    workflow = at("called")
    waits(workflow, 2)
    workflow.pause()
    workflow.resume()

    assert waits(workflow, 1) == [10, 20, 10]


@pytest.mark.parametrize(("answer", "seconds"), [(None, 0), (2.5, 2.5), (timedelta(hours=1), 3600), (0, 0)])
@pytest.mark.databases("sqlite")
def test_a_callable_may_answer_with_any_duration(app: Flask, plan: Plan, answer: Any, seconds: float) -> None:
    # BKO-02, BKO-06
    plan["wait"] = lambda attempt: answer

    assert waits(at("called"), 1) == [seconds]


@pytest.mark.parametrize("answer", [-1, "soon", float("nan"), float("inf"), True, timedelta.max])
@pytest.mark.databases("sqlite")
def test_a_callable_that_answers_nonsense_pauses_with_the_steps_error(app: Flask, plan: Plan, answer: Any) -> None:
    # BKO-05
    plan["wait"] = lambda attempt: answer
    workflow = at("called")

    run = run_job(workflow.execution_history[-1].id)

    failed = reload(workflow).execution_history[-1]
    assert (workflow.state, failed.state, failed.error_class_name) == ("paused", "failed", "Boom")
    assert "StepConfigurationError" in (failed.error_backtrace or "")
    assert isinstance(run.error_to_report, Boom)


@pytest.mark.databases("sqlite")
def test_a_callable_that_raises_pauses_with_the_steps_error(app: Flask, plan: Plan) -> None:
    def fail(attempt: int) -> Any:
        raise Other("no idea")

    plan["wait"] = fail
    workflow = at("called")

    perform_next_step(workflow, raise_errors=False)

    failed = workflow.execution_history[-1]
    assert (workflow.state, failed.error_class_name) == ("paused", "Boom")
    assert "no idea" in (failed.error_backtrace or "")


@pytest.mark.databases("sqlite")
def test_polynomially_longer_with_jitter(app: Flask) -> None:
    # BKO-03, BKO-04
    for attempt, seconds in enumerate(waits(at("polynomial"), 5), start=1):
        assert attempt**4 + 2 <= seconds <= attempt**4 * 1.15 + 2


@pytest.mark.databases("sqlite")
def test_exponential_up_to_an_hour_with_jitter(app: Flask) -> None:
    # BKO-04
    for attempt, seconds in enumerate(waits(at("exponential"), 20), start=1):
        base = min(2**attempt, 3600)
        assert base <= seconds <= base * 1.15


@pytest.mark.parametrize("wait", ["soon", "linear", "", -1, True, object(), [5], float("nan")])
@pytest.mark.databases("sqlite")
def test_a_wait_that_cannot_be_is_refused_when_the_policy_is_made(app: Flask, wait: Any) -> None:
    # BKO-05
    with pytest.raises(StepConfigurationError, match="wait"):
        ExceptionPolicy("reattempt", wait=wait)


@pytest.mark.databases("sqlite")
def test_in_a_list_the_wait_is_of_the_member_that_matched_by_the_common_count(app: Flask, plan: Plan) -> None:
    # BKO-02, EXC-25
    errors = iter([Boom(), Other(), Boom(), Other()])
    plan["error"] = lambda workflow: next(errors)

    assert waits(at("listed"), 4) == [10, 200, 10, 400]


def test_the_job_is_sent_for_the_time_of_the_retry(jobs: list[JobRequest]) -> None:
    # BKO-01
    workflow = at("fixed")
    execution_id = workflow.execution_history[-1].id
    db.session.commit()
    del jobs[:]

    run_job(execution_id)

    retry = reload(workflow).execution_history[-1]
    assert [(job.execution_id, job.due) for job in jobs] == [(retry.id, retry.scheduled_for)]
