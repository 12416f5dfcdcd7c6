"""Steps run in the order of the class body, around gravestones, and where before and after put them."""

from __future__ import annotations

from typing import Any

import pytest

from flask_geneva.definition.step_sequence import StepSequence
from flask_geneva.definition.steps import StepDefinition, removed_step, step
from tests.definition.plain import PlainWorkflow, mistake, names


def sequence(*listed: str) -> StepSequence:
    """Names in parentheses are gravestones."""
    return StepSequence(
        StepDefinition(name=name.strip("()"), method_name="run", source="here:1", removed=name.startswith("("))
        for name in listed
    )


def name_of(definition: StepDefinition | None) -> str | None:
    return None if definition is None else definition.name


def test_steps_keep_the_order_of_the_class_body() -> None:
    # ORD-01
    class Order(PlainWorkflow):
        @step
        def reserve(self) -> None: ...

        refund = removed_step()
        retries = [step("reserve"), step("reserve")]

        @step
        def ship(self) -> None: ...

        last = step("reserve")

    assert names(Order) == ["reserve", "refund", "retries_1", "retries_2", "ship", "last"]


@pytest.mark.parametrize("option", [{"before": "third"}, {"after": "first"}])
def test_a_step_goes_where_before_or_after_puts_it(option: Any) -> None:
    # ORD-02
    class Order(PlainWorkflow):
        @step
        def first(self) -> None: ...

        @step
        def third(self) -> None: ...

        @step(**option)
        def second(self) -> None: ...

    assert names(Order) == ["first", "second", "third"]


def test_steps_can_be_put_at_both_ends() -> None:
    # ORD-03, ORD-19
    class Order(PlainWorkflow):
        @step
        def middle(self) -> None: ...

        last = step("middle", after="middle")
        first = step("middle", before="middle")

    assert names(Order) == ["first", "middle", "last"]
    assert name_of(Order.definition.steps.first()) == "first"


def test_several_steps_are_put_in_place() -> None:
    # ORD-04
    class Order(PlainWorkflow):
        @step
        def step_1(self) -> None: ...

        step_4 = step("step_1")
        step_2 = step("step_1", after="step_1")
        step_3 = step("step_1", before="step_4")

    assert names(Order) == ["step_1", "step_2", "step_3", "step_4"]


def test_an_anchor_may_have_been_put_in_place_itself() -> None:
    # ORD-05
    class Order(PlainWorkflow):
        @step
        def first(self) -> None: ...

        second = step("first", after="first")
        third = step("first", after="second")
        last = step("first")

    assert names(Order) == ["first", "second", "third", "last"]


def test_of_two_steps_after_one_anchor_the_later_declared_is_nearer() -> None:
    # ORD-06
    class Order(PlainWorkflow):
        @step
        def anchor(self) -> None: ...

        a = step("anchor", after="anchor")
        b = step("anchor", after="anchor")

    assert names(Order) == ["anchor", "b", "a"]


def test_two_steps_before_one_anchor_keep_their_order() -> None:
    # ORD-07
    class Order(PlainWorkflow):
        @step
        def anchor(self) -> None: ...

        a = step("anchor", before="anchor")
        b = step("anchor", before="anchor")

    assert names(Order) == ["a", "b", "anchor"]


def test_a_step_that_is_put_in_place_keeps_its_options_and_its_name() -> None:
    # ORD-08
    class Order(PlainWorkflow):
        @step
        def ship(self) -> None: ...

        retries = [step("ship", before="ship", wait=30, on_exception="skip")]

    moved = Order.definition.steps["retries_1"]

    assert names(Order) == ["retries_1", "ship"]
    assert moved.wait is not None
    assert moved.exception_policies[0].action == "skip"


def test_a_subclass_puts_steps_between_those_of_its_parent() -> None:
    # ORD-09, DEF-45
    class Order(PlainWorkflow):
        @step
        def first(self) -> None: ...

        @step
        def third(self) -> None: ...

    class GiftOrder(Order):
        @step(after="first")
        def second(self) -> None: ...

        fourth = step("first")

    assert names(GiftOrder) == ["first", "second", "third", "fourth"]
    assert names(Order) == ["first", "third"]


def test_both_anchors_are_refused() -> None:
    # ORD-10
    with mistake("Order, step 'second'", "both before and after"):

        class Order(PlainWorkflow):
            @step
            def first(self) -> None: ...

            second = step("first", before="first", after="first")


@pytest.mark.parametrize("anchor", ["nowhere", "later", "second", ""])
def test_an_anchor_must_be_known_already(anchor: str) -> None:
    # ORD-11
    with mistake("Order, step 'second'", f"before='{anchor}'", "first"):

        class Order(PlainWorkflow):
            @step
            def first(self) -> None: ...

            second = step("first", before=anchor)
            later = step("first")


def test_an_anchor_is_given_by_its_name() -> None:
    with mistake("Order, step 'second'", "after='first'"):

        class Order(PlainWorkflow):
            @step
            def first(self) -> None: ...

            second = step("first", after=first)  # type: ignore[call-overload]


def test_a_gravestone_may_be_an_anchor() -> None:
    # ORD-12
    class Order(PlainWorkflow):
        gone = removed_step()

        @step
        def last(self) -> None: ...

        first = step("last", before="gone")

    assert names(Order) == ["first", "gone", "last"]


@pytest.mark.parametrize(
    ("name", "expected"), [(None, "a"), ("a", "b"), ("b", "c"), ("gone", "c"), ("c", None), ("nowhere", None)]
)
def test_the_next_step_is_the_next_that_runs(name: str | None, expected: str | None) -> None:
    # ORD-13, REM-09
    steps = sequence("(early)", "a", "b", "(gone)", "c", "(late)")

    assert name_of(steps.next_after(name)) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [(None, None), ("a", None), ("b", "a"), ("gone", "b"), ("c", "b"), ("nowhere", None)]
)
def test_the_previous_step_is_the_nearest_earlier_that_runs(name: str | None, expected: str | None) -> None:
    # ORD-14, REM-09
    steps = sequence("(early)", "a", "b", "(gone)", "c")

    assert name_of(steps.previous_before(name)) == expected


def test_where_nothing_runs_there_is_no_first_step() -> None:
    # REM-05, REM-06
    assert sequence().first() is None
    assert sequence("(gone)", "(lost)").first() is None
    assert name_of(sequence("(gone)", "a").first()) == "a"


def test_steps_are_looked_up_by_name() -> None:
    # ORD-15, REM-01
    steps = sequence("a", "(gone)")

    assert steps["gone"].removed
    assert steps.get("nowhere") is None
    assert (list(steps), len(steps), "a" in steps) == (["a", "gone"], 2, True)


def test_the_runnable_and_the_removed_are_two_lists() -> None:
    # REM-02
    steps = sequence("a", "(gone)", "b")

    assert [each.name for each in steps.runnable] == ["a", "b"]
    assert [each.name for each in steps.removed] == ["gone"]
    assert repr(steps) == "<StepSequence: a, gone (removed), b>"
