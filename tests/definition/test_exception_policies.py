"""Which policy applies to an error, how often it grants another attempt, and what ends it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from flask_geneva.definition.exception_policies import (
    AppliedPolicy,
    ExceptionPolicy,
    decide,
    on_exception,
    policy_for,
)
from flask_geneva.definition.steps import step
from flask_geneva.definition.verdicts import Canceled, Paused, Reattempted, Skipped
from flask_geneva.errors import StepConfigurationError, StepTimeout
from tests.definition.plain import PlainWorkflow, mistake, only_step


class RateLimited(Exception): ...


class Strict(RateLimited): ...


@dataclass(frozen=True)
class Step:
    exception_policies: tuple[ExceptionPolicy, ...] = ()


def applied(error: BaseException, *, step: Any = (), workflow_class: Any = ()) -> AppliedPolicy:
    return policy_for(Step(tuple(step)), tuple(workflow_class), error)


def action_on(error: BaseException, **levels: Any) -> str | None:
    return applied(error, **levels).policy.action


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {}),
        (("skip",), {"handler": lambda workflow, error: None}),
        (("explode",), {}),
        ((lambda workflow, error: None,), {}),
        (("skip",), {"wait": 5}),
        (("pause",), {"max_reattempts": 5}),
        (("cancel",), {"terminal_action": "skip"}),
        ((), {"handler": lambda workflow, error: None, "wait": 5}),
        ((), {"handler": lambda workflow, error: None, "max_reattempts": 5}),
        ((), {"handler": lambda workflow, error: None, "terminal_action": "skip"}),
        ((), {"handler": lambda error: None}),
        ((), {"handler": "calm"}),
        ((), {"handler": ValueError}),
        (("reattempt",), {"terminal_action": "reattempt"}),
        (("reattempt",), {"report": "sometimes"}),
        (("reattempt",), {"wait": "linear"}),
    ],
)
def test_a_policy_that_cannot_work_is_refused(arguments: Any, options: Any) -> None:
    # DEF-55, DEF-56, DEF-60, B-21
    with mistake("ExceptionPolicy"):
        ExceptionPolicy(*arguments, **options)


@pytest.mark.parametrize("cap", [0, -1, 1.5, True, "3"])
def test_a_cap_is_a_positive_integer(cap: Any) -> None:
    # DEF-56
    with mistake("ExceptionPolicy('reattempt')", "positive integer"):
        ExceptionPolicy("reattempt", max_reattempts=cap)


@pytest.mark.parametrize("matching", [5, object, object(), [], [5], "", "skip", lambda: True])
def test_what_no_error_can_match_is_refused(matching: Any) -> None:
    # DEF-52, DEF-57
    with mistake("ExceptionPolicy('skip'): matching"):
        ExceptionPolicy("skip", matching=matching)


@pytest.mark.parametrize(
    "matching",
    [
        RateLimited,
        [ValueError, RateLimited],
        (RateLimited,),
        f"{__name__}.RateLimited",
        ["no.such.Error", f"{__name__}.RateLimited"],
        lambda error: error.args == ("slow down",),
    ],
)
def test_a_policy_matches_by_class_by_name_and_by_predicate(matching: Any) -> None:
    # DEF-53, DEF-54, DEF-57, DEF-58
    policy = ExceptionPolicy("skip", matching=matching)

    assert policy.matches(Strict("slow down"))
    assert not policy.matches(KeyError("slow"))
    assert not policy.is_blanket


@pytest.mark.parametrize(
    "name", ["no.such.Error", "os.path.Nothing", "os.path", "os.path.join", "not a name!", "..", "json.loads.x"]
)
def test_a_name_that_cannot_be_resolved_matches_nothing(name: str) -> None:
    # DEF-53
    assert not ExceptionPolicy("skip", matching=name).matches(ValueError())


def test_a_builtin_error_goes_by_its_bare_name() -> None:
    # DEF-53
    assert ExceptionPolicy("skip", matching="TimeoutError").matches(TimeoutError())


def test_without_matching_a_policy_applies_to_every_error() -> None:
    # DEF-57, DEF-58
    policy = ExceptionPolicy("skip")

    assert policy.is_blanket
    assert policy.matches(StepTimeout())


def test_what_a_predicate_raises_propagates() -> None:
    policy = ExceptionPolicy("skip", matching=lambda error: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        applied(ValueError(), step=[policy])


def test_a_policy_is_a_value() -> None:
    policy: Any = ExceptionPolicy("reattempt", matching=[KeyError, "a.B"], wait=5, max_reattempts=3, report="never")

    assert policy == ExceptionPolicy("reattempt", matching=[KeyError, "a.B"], wait=5, max_reattempts=3, report="never")
    assert policy != ExceptionPolicy("reattempt")
    with pytest.raises(AttributeError):
        policy.action = "skip"


def test_a_policy_can_be_read_in_a_log() -> None:
    policy = ExceptionPolicy("reattempt", matching=KeyError, wait=5, max_reattempts=None, terminal_action="skip")

    assert repr(policy) == (
        "ExceptionPolicy('reattempt', matching=[KeyError], wait=datetime.timedelta(seconds=5), max_reattempts=None, "
        "terminal_action='skip')"
    )
    assert repr(ExceptionPolicy("skip")) == "ExceptionPolicy('skip')"


def test_without_a_policy_the_workflow_is_paused() -> None:
    # EXC-01, EXC-16
    assert action_on(ValueError()) == "pause"
    assert policy_for(None, (), ValueError()).policy.action == "pause"


def test_the_steps_own_policy_beats_the_classs() -> None:
    # EXC-08, EXC-09
    own, other = ExceptionPolicy("skip"), ExceptionPolicy("cancel", matching=ValueError)

    assert action_on(ValueError(), step=[own], workflow_class=[other]) == "skip"


def test_the_steps_own_handler_beats_the_classs_policies() -> None:
    # EXC-10
    def calm(workflow: object, error: Exception) -> None: ...

    found = applied(ValueError(), step=[ExceptionPolicy(handler=calm)], workflow_class=[ExceptionPolicy("skip")])

    assert found.policy.handler is calm


def test_a_steps_explicit_pause_ends_the_search() -> None:
    # EXC-18
    assert action_on(ValueError(), step=[ExceptionPolicy("pause")], workflow_class=[ExceptionPolicy("skip")]) == "pause"


def test_a_steps_single_policy_that_does_not_match_is_passed_over() -> None:
    own = ExceptionPolicy("skip", matching=KeyError)

    assert action_on(ValueError(), step=[own], workflow_class=[ExceptionPolicy("cancel")]) == "cancel"


def test_a_classs_blanket_policy_applies_to_steps_without_one() -> None:
    # EXC-11
    assert action_on(ValueError(), workflow_class=[ExceptionPolicy("skip")]) == "skip"


@pytest.mark.parametrize("order", [1, -1])
def test_a_specific_policy_beats_a_blanket_one_in_any_order(order: int) -> None:
    # EXC-12, EXC-17
    policies = [ExceptionPolicy("skip", matching=ValueError), ExceptionPolicy("cancel")][::order]

    assert action_on(ValueError(), workflow_class=policies) == "skip"
    assert action_on(KeyError(), workflow_class=policies) == "cancel"


def test_of_a_classs_specific_policies_the_latest_declared_wins() -> None:
    # EXC-13
    policies = [ExceptionPolicy("skip", matching=ValueError), ExceptionPolicy("cancel", matching=Exception)]

    assert action_on(ValueError(), workflow_class=policies) == "cancel"


def test_of_blanket_policies_the_latest_declared_wins_and_the_subclasss_first() -> None:
    # EXC-14
    class Parent(PlainWorkflow):
        exception_policies = [ExceptionPolicy("pause"), ExceptionPolicy("skip")]

    class Child(Parent):
        exception_policies = [ExceptionPolicy("cancel")]

    assert action_on(ValueError(), workflow_class=Parent.definition.exception_policies) == "skip"
    assert action_on(ValueError(), workflow_class=Child.definition.exception_policies) == "cancel"


def test_every_specific_policy_is_tried_before_any_blanket_one() -> None:
    # EXC-15
    class Parent(PlainWorkflow):
        exception_policies = [ExceptionPolicy("skip", matching=ValueError)]

    class Child(Parent):
        exception_policies = [ExceptionPolicy("cancel")]

    class Grandchild(Child):
        exception_policies = [ExceptionPolicy("pause", matching=ValueError)]

    assert action_on(ValueError(), workflow_class=Child.definition.exception_policies) == "skip"
    assert action_on(ValueError(), workflow_class=Grandchild.definition.exception_policies) == "pause"


def test_policies_and_handlers_are_ordered_by_their_place_in_the_class_body() -> None:
    class Early(PlainWorkflow):
        exception_policies = [ExceptionPolicy("skip", matching=ValueError)]

        @on_exception(ValueError)
        def calm(self, error: ValueError) -> None: ...

    class Late(PlainWorkflow):
        @on_exception(ValueError)
        def calm(self, error: ValueError) -> None: ...

        exception_policies = [ExceptionPolicy("skip", matching=ValueError)]

    assert action_on(ValueError(), workflow_class=Early.definition.exception_policies) is None
    assert action_on(ValueError(), workflow_class=Late.definition.exception_policies) == "skip"


def test_a_list_routes_by_type_and_falls_back_on_its_blanket_member() -> None:
    # EXC-25, EXC-26
    policies = [
        ExceptionPolicy("reattempt", matching=TimeoutError),
        ExceptionPolicy("cancel", matching=KeyError),
        ExceptionPolicy("skip"),
    ]

    assert action_on(TimeoutError(), step=policies) == "reattempt"
    assert action_on(KeyError(), step=policies) == "cancel"
    assert action_on(ValueError(), step=policies) == "skip"


def test_a_list_without_a_match_falls_through_to_the_class() -> None:
    # EXC-27
    policies = [ExceptionPolicy("skip", matching=KeyError), ExceptionPolicy("skip", matching=OSError)]

    assert action_on(ValueError(), step=policies, workflow_class=[ExceptionPolicy("cancel")]) == "cancel"


def test_in_a_list_the_first_match_wins() -> None:
    # EXC-28
    policies = [
        ExceptionPolicy("skip", matching=ValueError),
        ExceptionPolicy("cancel", matching=Exception),
        ExceptionPolicy("reattempt"),
        ExceptionPolicy("pause"),
    ]

    assert action_on(ValueError(), step=policies) == "skip"
    assert action_on(StepTimeout(), step=policies) == "reattempt"


def test_in_a_list_specific_members_come_before_a_blanket_one_that_is_listed_first() -> None:
    # EXC-29, B-18
    policies = [ExceptionPolicy("skip"), ExceptionPolicy("cancel", matching=ValueError)]

    assert action_on(ValueError(), step=policies) == "cancel"


def reattempt(matching: Any = None, **options: Any) -> ExceptionPolicy:
    return ExceptionPolicy("reattempt", matching=matching, **options)


@pytest.mark.parametrize(
    ("members", "cap"),
    [
        ([reattempt(KeyError, max_reattempts=10), reattempt(OSError, max_reattempts=3)], 3),
        ([reattempt(KeyError, max_reattempts=10), reattempt(OSError)], 10),
        ([reattempt(KeyError, max_reattempts=150), reattempt(OSError)], 150),
        ([reattempt(KeyError, max_reattempts=None), reattempt(OSError, max_reattempts=3)], 3),
        ([reattempt(KeyError, max_reattempts=None), reattempt(OSError)], 100),
        ([reattempt(KeyError, max_reattempts=None), ExceptionPolicy("skip")], None),
        ([reattempt(KeyError), reattempt(OSError)], 100),
    ],
)
def test_in_a_list_the_smallest_explicit_cap_counts_for_all(members: Any, cap: int | None) -> None:
    # EXC-30, EXC-33, B-17
    assert applied(KeyError(), step=members).cap == cap


def test_a_class_level_policy_has_its_own_cap() -> None:
    # EXC-32, B-19, DEF-50
    policies = [reattempt(KeyError, max_reattempts=10), reattempt(OSError, max_reattempts=3), reattempt()]

    caps = [applied(error, workflow_class=policies).cap for error in (KeyError(), OSError(), ValueError())]

    assert caps == [10, 3, 100]


def test_a_cap_does_not_leak_from_the_class_to_the_step() -> None:
    # EXC-32, B-19
    own, other = reattempt(KeyError, max_reattempts=10), reattempt(max_reattempts=2)

    assert applied(KeyError(), step=[own], workflow_class=[other]).cap == 10
    assert applied(OSError(), step=[own], workflow_class=[other]).cap == 2


def test_a_handler_is_capped_at_a_hundred_unless_its_list_says_less() -> None:
    # EXC-23
    handler = ExceptionPolicy(handler=lambda workflow, error: None, matching=OSError)

    assert applied(OSError(), workflow_class=[handler]).cap == 100
    assert applied(OSError(), step=[handler, reattempt(KeyError, max_reattempts=None)]).cap == 100
    assert applied(OSError(), step=[handler, reattempt(KeyError, max_reattempts=3)]).cap == 3


def test_the_actions_end_the_attempt() -> None:
    # EXC-02, EXC-03, EXC-04
    error = ValueError()
    policies = [ExceptionPolicy("pause"), ExceptionPolicy("skip"), ExceptionPolicy("cancel")]

    verdicts = [decide(applied(error, step=[policy]), error, 0) for policy in policies]

    assert verdicts == [
        Paused(error=error, report=True),
        Skipped(error=error, report=True),
        Canceled(error=error, report=True),
    ]


def test_so_many_reattempts_are_granted_as_the_cap_says() -> None:
    # EXC-05, EXC-34
    error = ValueError()
    policy = applied(error, step=[reattempt(max_reattempts=3)])

    verdicts = [type(decide(policy, error, granted)) for granted in range(4)]

    assert verdicts == [Reattempted, Reattempted, Reattempted, Paused]


def test_without_a_cap_reattempts_never_end() -> None:
    # EXC-35
    error = ValueError()

    assert isinstance(decide(applied(error, step=[reattempt(max_reattempts=None)]), error, 10**6), Reattempted)


@pytest.mark.parametrize(("terminal", "verdict"), [("pause", Paused), ("cancel", Canceled), ("skip", Skipped)])
def test_the_terminal_action_of_the_policy_that_matched_ends_the_attempt(terminal: Any, verdict: Any) -> None:
    # EXC-31, EXC-40, EXC-41
    error = ValueError()
    members = [reattempt(ValueError, terminal_action=terminal), reattempt(KeyError, max_reattempts=2)]

    assert isinstance(decide(applied(error, step=members), error, 2), verdict)


def test_the_wait_goes_by_the_number_of_the_attempt() -> None:
    # EXC-06, BKO-02
    error = ValueError()
    policy = applied(error, step=[reattempt(wait=lambda attempt: attempt * 10)])

    waits = [decide(policy, error, granted) for granted in (0, 1)]

    assert [each.wait for each in waits if isinstance(each, Reattempted)] == [
        timedelta(seconds=10),
        timedelta(seconds=20),
    ]


def test_a_reattempt_says_why() -> None:
    # EXC-07, PRE-21
    error = ValueError()
    verdict = decide(applied(error, step=[reattempt()]), error, 0, reason="precondition")

    assert verdict == Reattempted(reason="precondition", error=error, report=True)


@pytest.mark.parametrize(
    ("report", "while_reattempting", "at_the_end"),
    [("always", True, True), ("never", False, False), ("terminal_only", False, True)],
)
def test_errors_are_reported_as_the_policy_says(report: Any, while_reattempting: bool, at_the_end: bool) -> None:
    # EXC-48, EXC-49, EXC-50, EXC-54
    error = ValueError()
    policy = applied(error, step=[reattempt(max_reattempts=1, report=report)])
    first: Any = decide(policy, error, 0)
    last: Any = decide(policy, error, 1)

    assert (first.report, last.report) == (while_reattempting, at_the_end)


def test_a_wait_function_that_answers_nonsense_is_an_error_when_it_is_asked() -> None:
    policy = applied(ValueError(), step=[reattempt(wait=lambda attempt: -1)])

    with pytest.raises(StepConfigurationError, match="attempt 1"):
        decide(policy, ValueError(), 0)


def test_a_marked_method_is_asked_about_its_errors() -> None:
    # DEF-51, EXC-19
    class Order(PlainWorkflow):
        @on_exception(RateLimited, "no.such.Error", report="never")
        def calm(self, error: RateLimited) -> Any:
            return self, error

    (policy,) = Order.definition.exception_policies
    order, error = Order(), RateLimited()

    assert policy.handler is not None
    assert policy.handler(order, error) == (order, error) == order.calm(error)
    assert (policy.matches(KeyError()), policy.report) == (False, "never")


def test_a_bare_mark_asks_about_every_error() -> None:
    # DEF-49, DEF-51
    class Order(PlainWorkflow):
        @on_exception
        def calm(self, error: Exception) -> None: ...

        @on_exception()
        def calmer(self, error: Exception) -> None: ...

    assert [each.is_blanket for each in Order.definition.exception_policies] == [True, True]


def test_a_mark_may_ask_a_predicate() -> None:
    # DEF-54
    class Order(PlainWorkflow):
        @on_exception(lambda error: "slow" in str(error))
        def calm(self, error: Exception) -> None: ...

    (policy,) = Order.definition.exception_policies

    assert (policy.matches(ValueError("slow down")), policy.matches(ValueError())) == (True, False)


def test_a_handler_can_be_overridden_in_a_subclass() -> None:
    class Order(PlainWorkflow):
        @on_exception
        def calm(self, error: Exception) -> str:
            return "parent"

    class Child(Order):
        def calm(self, error: Exception) -> str:
            return "child"

    (policy,) = Child.definition.exception_policies

    assert policy.handler is not None
    assert policy.handler(Child(), ValueError()) == "child"


@pytest.mark.parametrize(
    ("arguments", "options", "phrase"),
    [
        ((int,), {}, "an exception class"),
        ((5,), {}, "an exception class"),
        (("reattempt",), {}, "first argument of ExceptionPolicy"),
        ((RateLimited,), {"wait": 5}, "'wait'"),
        ((RateLimited,), {"max_reattempts": 5}, "'max_reattempts'"),
        ((RateLimited,), {"report": "sometimes"}, "report"),
    ],
)
def test_a_mark_that_cannot_work_is_refused(arguments: Any, options: Any, phrase: str) -> None:
    # DEF-52, DEF-60, B-21
    with mistake("Order", "'calm'", phrase):

        class Order(PlainWorkflow):
            @on_exception(*arguments, **options)  # type: ignore[untyped-decorator]
            def calm(self, error: Exception) -> None: ...


def test_a_handler_takes_the_error() -> None:
    with mistake("Order", "'calm'", "(self, error)"):

        class Order(PlainWorkflow):
            @on_exception
            def calm(self) -> None: ...  # type: ignore[misc]

    with mistake("Return", "calm", "cannot be called with (self, error)"):

        class Return(PlainWorkflow):
            @on_exception(ValueError)  # type: ignore[type-var]
            def calm(self) -> None: ...


def test_a_steps_handler_may_be_a_method_that_is_marked() -> None:
    class Order(PlainWorkflow):
        @on_exception(ValueError)
        def calm(self, error: Exception) -> str:
            return "calm"

        @step(on_exception=calm)
        def ship(self) -> None: ...

    (policy,) = only_step(Order).exception_policies

    assert policy.handler(Order(), KeyError()) == "calm"
