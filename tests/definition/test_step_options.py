"""The options of a step are checked when the class is created; each mistake names class, step and remedy."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pytest

from flask_geneva.definition.exception_policies import ExceptionPolicy
from flask_geneva.definition.signal_matchers import SignalMatcher
from flask_geneva.definition.steps import StepDefinition, resumable_step, step
from tests.definition.plain import PlainWorkflow, mistake, only_step


class Matching:
    def matches(self, signal: Any) -> bool:
        return True


def step_with(**options: Any) -> StepDefinition:
    class Order(PlainWorkflow):
        @step(**options)
        def ship(self) -> None: ...

    found: StepDefinition = only_step(Order)
    return found


def resumable_with(**options: Any) -> StepDefinition:
    class Order(PlainWorkflow):
        @resumable_step(**options)
        def ship(self, it: object) -> None: ...

    found: StepDefinition = only_step(Order)
    return found


@pytest.mark.parametrize(
    ("wait", "expected"),
    [(timedelta(days=3), timedelta(days=3)), (30, timedelta(seconds=30)), (0, timedelta(0)), (None, None)],
)
def test_wait_is_a_duration(wait: Any, expected: timedelta | None) -> None:
    # DEF-11, B-22
    assert step_with(wait=wait).wait == expected


@pytest.mark.parametrize("wait", [-1, timedelta(seconds=-1), -0.001])
def test_a_negative_wait_is_refused(wait: Any) -> None:
    # DEF-12
    with mistake("Order, step 'ship'", "invalid wait", "non-negative"):
        step_with(wait=wait)


@pytest.mark.parametrize("wait", ["paid", "7200", SignalMatcher("paid"), Matching()])
def test_a_signal_given_as_wait_is_pointed_at_wait_for(wait: Any) -> None:
    # DEF-13
    with mistake("Order, step 'ship'", repr(wait), "wait_for="):
        step_with(wait=wait)


@pytest.mark.parametrize("wait", [datetime(2030, 1, 1), date(2030, 1, 1)])
def test_a_point_in_time_is_no_wait(wait: Any) -> None:
    with mistake("Order, step 'ship'", repr(wait), "how long", "wait_for="):
        step_with(wait=wait)


@pytest.mark.parametrize("wait_for", [timedelta(days=1), 30, 1.5, datetime(2030, 1, 1), date(2030, 1, 1)])
def test_a_time_given_as_wait_for_is_pointed_at_wait(wait_for: Any) -> None:
    # DEF-14
    with mistake("Order, step 'ship'", repr(wait_for), "wait="):
        step_with(wait_for=wait_for)


def test_wait_and_wait_for_go_together() -> None:
    # DEF-19
    both = step_with(wait=30, wait_for="paid")

    assert (both.wait, both.wait_for, both.waits_for_signal) == (timedelta(seconds=30), (SignalMatcher("paid"),), True)


def test_without_wait_for_a_step_does_not_wait_for_a_signal() -> None:
    # DEF-18
    assert (step_with().wait_for, step_with(wait_for=None).waits_for_signal) == ((), False)


def test_a_deadline_limits_the_wait_for_a_signal() -> None:
    limited = step_with(wait_for="paid", deadline=60, on_deadline="run")

    assert (limited.deadline, limited.on_deadline) == (timedelta(seconds=60), "run")
    assert step_with(wait_for="paid", deadline=60).on_deadline == "pause"


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"deadline": 60}, "Add wait_for="),
        ({"deadline": 60, "wait": 5}, "Add wait_for="),
        ({"wait_for": "paid", "on_deadline": "skip"}, "Add deadline="),
        ({"wait_for": "paid", "deadline": 60, "on_deadline": "explode"}, "'run'"),
        ({"wait_for": "paid", "deadline": "soon"}, "deadline must be"),
        ({"wait_for": "paid", "deadline": -1}, "negative"),
    ],
)
def test_a_deadline_that_cannot_work_is_refused(options: Any, phrase: str) -> None:
    with mistake("Order, step 'ship'", phrase):
        step_with(**options)


@pytest.mark.parametrize("action", ["pause", "cancel", "reattempt", "skip"])
def test_on_exception_takes_an_action(action: Any) -> None:
    # DEF-24
    (policy,) = step_with(on_exception=action).exception_policies

    assert policy.action == action


def test_without_on_exception_a_step_has_no_policy_of_its_own() -> None:
    # DEF-25
    assert step_with().exception_policies == ()


def test_on_exception_takes_a_policy_as_it_is() -> None:
    # DEF-26
    policy = ExceptionPolicy("skip", matching=ValueError)

    assert step_with(on_exception=policy).exception_policies[0] is policy


def test_on_exception_takes_a_callable() -> None:
    # DEF-27
    def calm(workflow: object, error: Exception) -> None: ...

    (policy,) = step_with(on_exception=calm).exception_policies

    assert (policy.action, policy.handler) == (None, calm)


def test_on_exception_takes_a_list_of_policies() -> None:
    # DEF-28
    policies = [ExceptionPolicy("skip", matching=ValueError), ExceptionPolicy("cancel")]

    assert step_with(on_exception=policies).exception_policies == tuple(policies)


@pytest.mark.parametrize(
    ("on_exception", "phrase"),
    [
        ("explode", "'pause', 'cancel', 'reattempt', 'skip'"),
        (["skip"], "every element"),
        ([lambda workflow, error: None], "every element"),
        (30, "invalid on_exception"),
        (ValueError, "matching=ValueError"),
        (lambda workflow: None, "cannot be called with (workflow, error)"),
    ],
)
def test_a_wrong_on_exception_is_refused(on_exception: Any, phrase: str) -> None:
    # DEF-24, DEF-29, DEF-30
    with mistake("Order, step 'ship'", phrase):
        step_with(on_exception=on_exception)


@pytest.mark.parametrize(
    ("options", "cap"),
    [({}, 100), ({"max_reattempts": 3}, 3), ({"max_reattempts": None}, None)],
)
def test_reattempts_are_limited_to_a_hundred_unless_told_otherwise(options: Any, cap: int | None) -> None:
    # DEF-31, DEF-32
    (policy,) = step_with(on_exception="reattempt", **options).exception_policies

    assert policy.max_reattempts == cap


@pytest.mark.parametrize("action", ["pause", "cancel", "skip"])
def test_other_actions_have_no_limit(action: Any) -> None:
    # DEF-31
    (policy,) = step_with(on_exception=action).exception_policies

    assert policy.max_reattempts is None


@pytest.mark.parametrize("on_exception", ["pause", "cancel", "skip", None])
@pytest.mark.parametrize("option", [{"max_reattempts": 3}, {"terminal_action": "cancel"}])
def test_limits_go_only_with_reattempt(on_exception: Any, option: Any) -> None:
    # DEF-33, DEF-37
    with mistake("Order, step 'ship'", "on_exception='reattempt'"):
        step_with(on_exception=on_exception, **option)


@pytest.mark.parametrize(
    "on_exception", [ExceptionPolicy("reattempt"), lambda workflow, error: None, [ExceptionPolicy("reattempt")]]
)
@pytest.mark.parametrize("option", [{"max_reattempts": 3}, {"terminal_action": "cancel"}])
def test_limits_beside_a_policy_belong_on_the_policy(on_exception: Any, option: Any) -> None:
    # DEF-35, DEF-37
    with mistake("Order, step 'ship'", "on the ExceptionPolicy"):
        step_with(on_exception=on_exception, **option)


@pytest.mark.parametrize("cap", [0, -1, 1.5, "3", True])
def test_a_limit_is_a_positive_integer(cap: Any) -> None:
    # DEF-34
    with mistake("Order, step 'ship'", "positive integer"):
        step_with(on_exception="reattempt", max_reattempts=cap)


@pytest.mark.parametrize("terminal", ["pause", "cancel", "skip"])
def test_the_terminal_action_follows_the_last_reattempt(terminal: Any) -> None:
    # DEF-36
    (policy,) = step_with(on_exception="reattempt", terminal_action=terminal).exception_policies

    assert policy.terminal_action == terminal


@pytest.mark.parametrize("terminal", ["reattempt", "explode", 3])
def test_an_unknown_terminal_action_is_refused(terminal: Any) -> None:
    # DEF-37
    with mistake("Order, step 'ship'", "terminal_action", "'pause', 'cancel', 'skip'"):
        step_with(on_exception="reattempt", terminal_action=terminal)


def test_an_unknown_option_is_refused_and_the_known_ones_listed() -> None:
    # DEF-38, B-21
    with mistake("Order, step 'ship'", "'retries'", "wait_for", "job_options"):
        step_with(retries=3)


@pytest.mark.parametrize("iterations", [0, -1, 1.5, "many"])
def test_max_iterations_is_a_positive_integer(iterations: Any) -> None:
    # DEF-40
    with mistake("Order, step 'ship'", "max_iterations", "positive integer"):
        resumable_with(max_iterations=iterations)


@pytest.mark.parametrize("runtime", [0, -1, timedelta(0), "long"])
def test_max_runtime_is_a_positive_duration(runtime: Any) -> None:
    # DEF-41
    with mistake("Order, step 'ship'", "max_runtime"):
        resumable_with(max_runtime=runtime)


def test_a_resumable_step_needs_no_limits() -> None:
    # DEF-40, DEF-41
    unlimited = resumable_with(max_iterations=None, max_runtime=None)

    assert (unlimited.max_iterations, unlimited.max_runtime) == (None, None)


@pytest.mark.parametrize("option", [{"max_iterations": 3}, {"max_runtime": 3}])
def test_a_plain_step_has_no_iterations_to_limit(option: Any) -> None:
    with mistake("Order, step 'ship'", "@resumable_step"):
        step_with(**option)


def test_a_resumable_step_takes_every_option_of_a_plain_one() -> None:
    # DEF-42
    resumable = resumable_with(
        name="send",
        wait=1,
        wait_for="go",
        deadline=5,
        on_deadline="skip",
        run_if=True,
        on_exception="reattempt",
        max_reattempts=3,
        terminal_action="cancel",
        job_options={"queue": "mail"},
    )

    assert (resumable.name, resumable.deadline, resumable.job_options) == (
        "send",
        timedelta(seconds=5),
        {"queue": "mail"},
    )


def test_the_job_options_of_a_step_are_checked() -> None:
    # DEF-61, JOB-06, JOB-09
    with mistake("Order, step 'ship'", "'priority'", "queue"):
        step_with(job_options={"priority": 1})


@pytest.mark.parametrize("name", ["", "x" * 256, 3])
def test_a_name_is_a_text_that_the_database_can_hold(name: Any) -> None:
    with mistake("Order, step 'ship'", "255"):
        step_with(name=name)
