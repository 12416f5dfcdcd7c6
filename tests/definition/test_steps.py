"""Steps are declared by decorators, names, callables and lists; what cannot work is refused with the class."""

from __future__ import annotations

from typing import Any

import pytest

from flask_geneva.definition.steps import StepDefinition, removed_step, resumable_step, step
from tests.definition.plain import PlainWorkflow, mistake, names, only_step


def test_a_decorated_method_is_a_step_of_its_name() -> None:
    # DEF-01, DEF-02
    class Order(PlainWorkflow):
        @step
        def reserve(self) -> str:
            return "reserved"

    assert only_step(Order).name == "reserve"
    assert only_step(Order).method_name == "reserve"


def test_a_decorated_method_can_be_called_like_any_other() -> None:
    class Order(PlainWorkflow):
        @step
        def bare(self) -> str:
            return "bare"

        @step(wait=5)
        def with_options(self) -> str:
            return "with options"

    assert (Order().bare(), Order().with_options()) == ("bare", "with options")


def test_a_step_by_name_runs_the_method_of_that_name() -> None:
    # DEF-02, DEF-03
    class Order(PlainWorkflow):
        first = step("deliver", wait=30)

        def deliver(self) -> None: ...

    assert (only_step(Order).name, only_step(Order).method_name) == ("first", "deliver")


def test_a_list_declares_steps_named_by_their_place() -> None:
    # DEF-06, DEF-44
    class Order(PlainWorkflow):
        retries = [step("deliver", wait=wait) for wait in (30, 30, 300)]

        def deliver(self) -> None: ...

    assert names(Order) == ["retries_1", "retries_2", "retries_3"]
    assert [each.wait.total_seconds() for each in Order.definition.steps.values() if each.wait] == [30, 30, 300]


def test_a_given_name_wins_over_the_attributes() -> None:
    class Order(PlainWorkflow):
        @step(name="charge")
        def capture(self) -> None: ...

        rest = [step("capture", name="settle"), step("capture")]

    assert names(Order) == ["charge", "settle", "rest_2"]


def test_a_callable_becomes_a_method_of_the_class() -> None:
    class Order(PlainWorkflow):
        single = step(lambda self: "single")
        several = [step(lambda self: "several")]

    order: Any = Order()

    assert [getattr(order, each.method_name)() for each in Order.definition.steps.values()] == ["single", "several"]


def test_a_method_of_the_class_given_as_callable_stays_overridable() -> None:
    class Order(PlainWorkflow):
        def deliver(self) -> None: ...

        retries = [step(deliver, wait=30), step(deliver, wait=60)]

    assert {each.method_name for each in Order.definition.steps.values()} == {"deliver"}


def test_a_callable_object_is_called_with_the_workflow() -> None:
    class Notify:
        def __call__(self, workflow: object) -> object:
            return workflow

    class Order(PlainWorkflow):
        notify = step(Notify())

    order: Any = Order()

    assert order.notify() is order


def test_a_step_may_be_named_like_the_inherited_method_that_it_runs() -> None:
    class Delivery:
        def deliver(self) -> str:
            return "delivered"

    class Order(Delivery, PlainWorkflow):
        deliver = step("deliver")  # type: ignore[assignment]

    order: Any = Order()

    assert only_step(Order).method_name == "deliver"
    assert order.deliver() == "delivered"


def test_one_decorator_may_serve_several_methods() -> None:
    class Order(PlainWorkflow):
        slowly = step(wait=300)

        @slowly
        def first(self) -> None: ...

        @slowly
        def second(self) -> None: ...

    assert names(Order) == ["first", "second"]


def test_a_resumable_step_is_handed_its_iteration() -> None:
    # DEF-42
    class Mailing(PlainWorkflow):
        @resumable_step(max_iterations=10, max_runtime=60, wait=5, wait_for="go", skip_if=False, max_reattempts=None)
        def send(self, it: object) -> object:
            return it

    sent = only_step(Mailing)

    assert sent.resumable
    assert (sent.max_iterations, sent.max_runtime.total_seconds()) == (10, 60)


def test_a_gravestone_has_a_name_a_place_and_a_source() -> None:
    # REM-01, REM-02, DEF-59, OBS-26
    class Order(PlainWorkflow):
        @step
        def reserve(self) -> None: ...

        refund_check = removed_step()

    (gravestone,) = Order.definition.steps.removed

    assert (gravestone.name, gravestone.removed, gravestone.runnable) == ("refund_check", True, False)
    assert gravestone.source.startswith(f"{__file__}:")
    assert [each.name for each in Order.definition.steps.runnable] == ["reserve"]


def test_the_source_is_the_line_of_the_declaration() -> None:
    # DEF-59
    class Order(PlainWorkflow):
        @step
        def bare(self) -> None: ...

        @step(
            wait=5,
        )
        def with_options(self) -> None: ...

        by_name = step("bare")
        listed = [step("bare") for _ in range(1)]

    first = Order.bare.__code__.co_firstlineno
    lines = [int(each.source.removeprefix(f"{__file__}:")) for each in Order.definition.steps.values()]

    assert lines == [first, first + 3, first + 8, first + 9]


def test_a_step_without_anything_to_call_is_refused() -> None:
    # DEF-04, DEF-39
    with mistake("Order", "'ship'", "goes above a method"):

        class Order(PlainWorkflow):
            ship = step(wait=3)

    with mistake("Mailing", "'send'", "goes above a method"):

        class Mailing(PlainWorkflow):
            send = resumable_step()


@pytest.mark.parametrize("target", [30, object(), int, staticmethod(print)])
def test_a_step_of_something_else_is_refused(target: Any) -> None:
    # DEF-05
    with mistake("Order, step 'ship'"):

        class Order(PlainWorkflow):
            ship = step(target)


def test_a_method_that_does_not_exist_is_refused() -> None:
    # DEF-03
    with mistake("Order, step 'ship'", "no method 'shpi'"):

        class Order(PlainWorkflow):
            ship = step("shpi")


def test_two_decorated_methods_of_one_name_are_refused() -> None:
    # DEF-08
    with mistake("Order", "'ship'", "already defined"):

        class Order(PlainWorkflow):
            @step
            def ship(self) -> None: ...

            @step(wait=5)  # type: ignore[no-redef]
            def ship(self) -> None: ...  # noqa: F811


def test_a_plain_method_after_a_decorated_one_of_the_same_name_is_refused() -> None:
    # DEF-08
    with mistake("Order", "'ship'", "already defined"):

        class Order(PlainWorkflow):
            @step
            def ship(self) -> None: ...

            def ship(self) -> None: ...  # type: ignore[no-redef] # noqa: F811


def test_a_decorated_method_after_a_plain_one_of_the_same_name_is_refused() -> None:
    # DEF-08
    with mistake("Order", "'ship'", "already defined"):

        class Order(PlainWorkflow):
            def ship(self) -> None: ...

            @step  # type: ignore[no-redef]
            def ship(self) -> None: ...  # noqa: F811


def test_two_plain_methods_of_the_name_that_a_step_runs_are_refused() -> None:
    # DEF-08
    with mistake("Order", "'deliver'", "already defined"):

        class Order(PlainWorkflow):
            ship = step("deliver")

            def deliver(self) -> None: ...

            def deliver(self) -> None: ...  # type: ignore[no-redef] # noqa: F811


def test_a_method_may_be_defined_in_either_branch_of_a_condition() -> None:
    class Order(PlainWorkflow):
        ship = step("deliver")

        if __debug__:

            def deliver(self) -> str:
                return "debug"
        else:

            def deliver(self) -> str:
                return "optimised"

    assert names(Order) == ["ship"]


def test_a_declaration_that_hides_its_own_method_is_refused() -> None:
    with mistake("Order", "'ship'", "already defined"):

        class Order(PlainWorkflow):
            def ship(self) -> None: ...

            ship = step("ship")  # type: ignore[assignment] # noqa: F811


def test_an_attribute_that_is_declared_twice_is_refused() -> None:
    # DEF-08, DEF-43
    with mistake("Order", "refund", "already defined"):

        class Order(PlainWorkflow):
            refund = removed_step()
            refund = removed_step()  # noqa: PIE794


def test_two_steps_of_one_name_are_refused() -> None:
    # DEF-07, DEF-08
    with mistake("Order, step 'ship_1'", "already defined"):

        class Order(PlainWorkflow):
            @step
            def ship_1(self) -> None: ...

            ship = [step("ship_1")]


def test_another_decorator_above_a_step_is_refused() -> None:
    def audited(method: Any) -> Any:
        return lambda self: method(self)

    with mistake("Order, step 'ship'", "go below"):

        class Order(PlainWorkflow):
            @audited
            @step
            def ship(self) -> None: ...


def test_a_declaration_that_no_attribute_holds_is_refused() -> None:
    with mistake("Order", "'deliver'", "no attribute of the class holds it"):

        class Order(PlainWorkflow):
            step("deliver")

            def deliver(self) -> None: ...

    with mistake("Parcel", "no attribute of the class holds it"):

        class Parcel(PlainWorkflow):
            removed_step()


@pytest.mark.parametrize("declare", [lambda: removed_step("refund"), lambda: removed_step(wait=3)])
def test_a_gravestone_takes_no_arguments(declare: Any) -> None:
    # DEF-43
    with mistake("Order", "'refund'", "takes no arguments"):

        class Order(PlainWorkflow):
            refund = declare()


def test_a_gravestone_cannot_stand_in_a_list() -> None:
    with mistake("Order", "'rest'", "rest_2 = removed_step()"):

        class Order(PlainWorkflow):
            rest = [step("ship"), removed_step()]

            def ship(self) -> None: ...


def test_a_list_of_steps_holds_nothing_else() -> None:
    with mistake("Order", "'rest'", "nothing but step(...)"):

        class Order(PlainWorkflow):
            rest = [step("ship"), "ship"]

            def ship(self) -> None: ...


@pytest.mark.parametrize("reserved", ["cancel", "steps", "job_options"])
def test_a_step_named_like_an_attribute_of_every_workflow_is_refused(reserved: str) -> None:
    with mistake("Order", f"'{reserved}'", "another name"):

        class Order(PlainWorkflow):
            @step(name=reserved)
            def ship(self) -> None: ...


def test_an_attribute_of_every_workflow_cannot_hold_steps() -> None:
    with mistake("Order", "'steps'"):

        class Order(PlainWorkflow):
            steps = [step("ship")]

            def ship(self) -> None: ...


def test_a_coroutine_is_refused_because_nothing_would_await_it() -> None:
    with mistake("Order, step 'ship'", "async def"):

        class Order(PlainWorkflow):
            @step
            async def ship(self) -> None: ...


def test_a_generator_is_refused_because_it_would_run_nothing() -> None:
    with mistake("Order, step 'ship'", "yield"):

        class Order(PlainWorkflow):
            @step
            def ship(self) -> Any:
                yield


def test_a_step_is_callable_with_the_workflow_alone() -> None:
    with mistake("Order, step 'ship'", "cannot be called with (self)"):

        class Order(PlainWorkflow):
            @step  # type: ignore[type-var]
            def ship(self, parcel: object) -> None: ...


def test_a_resumable_step_takes_an_iteration() -> None:
    with mistake("Mailing, step 'send'", "cannot be called with (self, it)"):

        class Mailing(PlainWorkflow):
            @resumable_step  # type: ignore[type-var]
            def send(self) -> None: ...


@pytest.mark.parametrize("kind", [staticmethod, classmethod, property])
def test_a_step_is_an_ordinary_method(kind: Any) -> None:
    with mistake("Order, step 'ship'", "ordinary method"):

        class Order(PlainWorkflow):
            ship = step("deliver")
            deliver = kind(lambda self: None)


def test_a_name_above_a_method_is_refused() -> None:
    with mistake("Order, step 'capture'", "name=..."):

        class Order(PlainWorkflow):
            @step("charge")
            def capture(self) -> None: ...


def test_a_decorator_that_wraps_a_step_is_judged_by_its_own_signature() -> None:
    def with_clock(method: Any) -> Any:
        def wrapper(self: Any) -> Any:
            return method(self, "noon")

        wrapper.__wrapped__ = method  # type: ignore[attr-defined]
        return wrapper

    class Order(PlainWorkflow):
        @step
        @with_clock
        def ship(self, clock: str) -> str:
            return clock

    assert Order().ship() == "noon"


def test_a_step_definition_cannot_be_changed() -> None:
    definition = StepDefinition(name="ship", method_name="ship", source="here:1")

    with pytest.raises(AttributeError):
        definition.name = "other"  # type: ignore[misc]


def test_steps_may_be_made_outside_of_the_class_body() -> None:
    def twice(method: Any) -> Any:
        return [step(method, wait=wait) for wait in (30, 60)]

    def ship(self: object) -> str:
        return "shipped"

    decorated = step(ship)

    class Order(PlainWorkflow):
        first = decorated
        retries = twice(lambda self: "delivered")

    order: Any = Order()

    assert names(Order) == ["first", "retries_1", "retries_2"]
    assert (order.first(), order.retries_2()) == ("shipped", "delivered")


def test_a_callable_in_a_list_does_not_replace_another_attribute() -> None:
    with mistake("Order, step 'retries_1'", "another attribute of that name"):

        class Order(PlainWorkflow):
            retries_1 = "taken"
            retries = [step(lambda self: None)]


def test_a_callable_without_a_readable_signature_is_trusted() -> None:
    class Order(PlainWorkflow):
        show = step(max)

    assert names(Order) == ["show"]


def test_a_declaration_that_vanished_in_a_container_is_refused() -> None:
    with mistake("Order", "no attribute of the class holds it"):

        class Order(PlainWorkflow):
            retries = {"first": step("deliver")}

            def deliver(self) -> None: ...
