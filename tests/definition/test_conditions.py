"""skip_if, run_if and cancel_if take a callable, a method's name or a bool, and are asked each time."""

from __future__ import annotations

from typing import Any

import pytest

from flask_geneva.definition.conditions import Condition, cancel_if
from flask_geneva.definition.steps import step
from tests.definition.plain import PlainWorkflow, mistake, only_step


def skips(**options: Any) -> bool:
    """Whether a step with these options is skipped."""

    class Order(PlainWorkflow):
        reviewed = True

        def is_reviewed(self) -> bool:
            return self.reviewed

        @step(**options)
        def ask(self) -> None: ...

    condition = only_step(Order).condition
    return condition is not None and condition.holds(Order())


@pytest.mark.parametrize("rule", [True, "is_reviewed", lambda self: self.reviewed, lambda self: [1]])
def test_a_step_is_skipped_when_skip_if_is_true(rule: Any) -> None:
    # DEF-20, PRE-03, PRE-09
    assert skips(skip_if=rule)


@pytest.mark.parametrize("rule", [False, None, lambda self: None, lambda self: ""])
def test_a_step_runs_when_skip_if_is_false(rule: Any) -> None:
    # DEF-20, PRE-08
    assert not skips(skip_if=rule)


@pytest.mark.parametrize("rule", [True, None, "is_reviewed", lambda self: self.reviewed])
def test_a_step_runs_when_run_if_is_true(rule: Any) -> None:
    # DEF-22, PRE-11, B-01
    assert not skips(run_if=rule)


@pytest.mark.parametrize("rule", [False, lambda self: not self.reviewed])
def test_a_step_is_skipped_when_run_if_is_false(rule: Any) -> None:
    # DEF-22, PRE-11, B-01
    assert skips(run_if=rule)


@pytest.mark.parametrize("skip_if", [True, False, None])
def test_both_conditions_are_refused_whatever_their_values(skip_if: Any) -> None:
    # DEF-23
    with mistake("Order, step 'ask'", "cannot specify both"):
        skips(skip_if=skip_if, run_if=True)


@pytest.mark.parametrize("rule", [1, object(), int, ["is_reviewed"]])
def test_another_kind_of_condition_is_refused(rule: Any) -> None:
    # DEF-21
    with mistake("Order, step 'ask'", "callable", "name of a method", "bool"):
        skips(skip_if=rule)


@pytest.mark.parametrize("name", ["is_revieved", "reviewed"])
def test_a_condition_by_name_must_name_a_method(name: str) -> None:
    # DEF-21
    with mistake("Order, step 'ask'", f"'{name}'"):
        skips(skip_if=name)


def test_a_callable_must_take_the_workflow() -> None:
    with mistake("Order, step 'ask'", "cannot be called with (workflow)"):
        skips(skip_if=lambda: True)


def test_a_coroutine_is_no_condition_since_it_is_always_true() -> None:
    async def always(workflow: object) -> bool:
        return False

    with mistake("Order, step 'ask'", "async def"):
        skips(skip_if=always)


def test_a_condition_is_asked_anew_each_time() -> None:
    # PRE-10
    class Order:
        reviewed = False

    order = Order()
    condition = Condition(rule=lambda workflow: workflow.reviewed)
    before = condition.holds(order)
    order.reviewed = True

    assert (before, condition.holds(order)) == (False, True)


def test_what_a_condition_raises_propagates() -> None:
    with pytest.raises(ZeroDivisionError):
        Condition(rule=lambda workflow: 1 // 0).holds(object())


def test_a_marked_method_is_a_cancel_condition_and_stays_a_method() -> None:
    # DEF-47
    class Order(PlainWorkflow):
        @cancel_if
        def withdrawn(self) -> bool:
            return True

        @cancel_if()
        def lost(self) -> bool:
            return False

    assert [each.holds(Order()) for each in Order.definition.cancel_conditions] == [True, False]
    assert Order().withdrawn()


def test_a_cancel_condition_can_be_overridden_in_a_subclass() -> None:
    class Order(PlainWorkflow):
        @cancel_if
        def withdrawn(self) -> bool:
            return True

    class FirmOrder(Order):
        def withdrawn(self) -> bool:
            return False

    (condition,) = FirmOrder.definition.cancel_conditions

    assert not condition.holds(FirmOrder())


def test_a_cancel_condition_may_serve_a_step_as_well() -> None:
    class Order(PlainWorkflow):
        @cancel_if
        def withdrawn(self) -> bool:
            return True

        @step(skip_if=withdrawn)
        def ship(self) -> None: ...

    assert only_step(Order).condition.holds(Order())


def test_a_cancel_condition_takes_the_workflow_alone() -> None:
    with mistake("Order", "@cancel_if", "cannot be called with (self)"):

        class Order(PlainWorkflow):
            @cancel_if  # type: ignore[type-var]
            def withdrawn(self, reason: str) -> None: ...


def test_two_cancel_conditions_of_one_name_are_refused() -> None:
    # DEF-08
    with mistake("Order", "'withdrawn'", "already defined"):

        class Order(PlainWorkflow):
            @cancel_if
            def withdrawn(self) -> None: ...

            @cancel_if  # type: ignore[no-redef]
            def withdrawn(self) -> None: ...  # noqa: F811


def test_a_method_is_not_step_and_condition_at_once() -> None:
    with mistake("Order", "'ship'", "marked twice"):

        class Order(PlainWorkflow):
            @step
            @cancel_if
            def ship(self) -> None: ...


def test_a_condition_that_marks_nothing_is_refused() -> None:
    with mistake("Order", "'withdrawn'", "Put it above one"):

        class Order(PlainWorkflow):
            withdrawn = cancel_if()
