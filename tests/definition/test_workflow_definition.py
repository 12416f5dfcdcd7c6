"""A class is read once: what it inherits, overrides, buries and adds."""

from __future__ import annotations

from typing import Any

import pytest

from flask_geneva.definition.conditions import cancel_if
from flask_geneva.definition.exception_policies import ExceptionPolicy, on_exception
from flask_geneva.definition.steps import removed_step, step
from tests.definition.plain import PlainWorkflow, mistake, names


class Order(PlainWorkflow):
    job_options = {"queue": "orders", "timeout": 60}
    exception_policies = [ExceptionPolicy("skip", matching=KeyError)]

    @cancel_if
    def withdrawn(self) -> bool:
        return False

    @step
    def reserve(self) -> str:
        return "reserved"

    @step(wait=30)
    def ship(self) -> str:
        return "shipped"

    thank = step("reserve")


def test_a_parents_steps_come_first() -> None:
    # DEF-45, DEF-46
    class GiftOrder(Order):
        @step
        def wrap(self) -> None: ...

    assert names(GiftOrder) == ["reserve", "ship", "thank", "wrap"]
    assert names(Order) == ["reserve", "ship", "thank"]


def test_an_overridden_method_keeps_its_steps_place_and_options() -> None:
    # B-58
    class GiftOrder(Order):
        def ship(self) -> str:
            return "shipped as a gift"

    shipping = GiftOrder.definition.steps["ship"]

    assert names(GiftOrder) == names(Order)
    assert shipping is Order.definition.steps["ship"]
    assert getattr(GiftOrder(), shipping.method_name)() == "shipped as a gift"


def test_an_override_with_a_decorator_is_refused() -> None:
    # DEF-10
    with mistake("GiftOrder, step 'ship'", "already defined", "without a decorator"):

        class GiftOrder(Order):
            @step
            def ship(self) -> str:
                return "shipped as a gift"


def test_a_second_step_of_an_inherited_name_is_refused() -> None:
    # DEF-10
    with mistake("GiftOrder, step 'thank'", "already defined"):

        class GiftOrder(Order):
            thank = step("reserve")


def test_a_decorated_override_of_a_method_that_a_parents_step_runs_is_refused() -> None:
    class Parent(PlainWorkflow):
        @step(name="charge")
        def capture(self) -> None: ...

    with mistake("Child, step 'charge'", "'capture'", "Drop the decorator"):

        class Child(Parent):
            @step
            def capture(self) -> None: ...


def test_an_override_that_no_step_would_call_is_refused() -> None:
    with mistake("GiftOrder, step 'thank'", "runs the method 'reserve'"):

        class GiftOrder(Order):
            def thank(self) -> None: ...  # type: ignore[override]


def test_an_override_must_be_callable_as_a_step_too() -> None:
    with mistake("GiftOrder, step 'ship'", "async def"):

        class GiftOrder(Order):
            async def ship(self) -> str:  # type: ignore[override]
                return "shipped"

    with mistake("FreeOrder, step 'ship'", "no method 'ship'"):

        class FreeOrder(Order):
            ship = None  # type: ignore[assignment]


def test_a_subclass_buries_a_parents_step_in_its_place() -> None:
    class GiftOrder(Order):
        ship = removed_step()

    assert names(GiftOrder) == names(Order)
    assert GiftOrder.definition.steps["ship"].removed
    assert Order.definition.steps["ship"].runnable


def test_a_step_is_not_dug_out_again() -> None:
    # DEF-43
    class GiftOrder(Order):
        ship = removed_step()

    with mistake("Express, step 'ship'", "already defined as a removed step"):

        class Express(GiftOrder):
            @step
            def ship(self) -> str:
                return "shipped again"


def test_a_buried_step_may_be_buried_again() -> None:
    class GiftOrder(Order):
        ship = removed_step()

    class Express(GiftOrder):
        ship = removed_step()

    assert names(Express) == names(Order)


def test_a_plain_mixin_brings_its_steps_and_rules() -> None:
    class Audited:
        exception_policies = [ExceptionPolicy("cancel", matching=OSError)]

        @cancel_if
        def hopeless(self) -> bool:
            return True

        @step
        def audit(self) -> str:
            return "audited"

    class AuditedOrder(Audited, Order):
        exception_policies = [ExceptionPolicy("pause", matching=LookupError)]

    assert Audited().audit() == "audited"
    assert names(AuditedOrder) == ["audit", "reserve", "ship", "thank"]
    assert [each.rule for each in AuditedOrder.definition.cancel_conditions] == ["hopeless", "withdrawn"]
    assert [each.action for each in AuditedOrder.definition.exception_policies] == ["skip", "cancel", "pause"]


def test_one_mixin_serves_several_classes() -> None:
    class Audited:
        audits = [step(lambda self: "audited")]

    class AuditedOrder(Audited, Order): ...

    class AuditedReturn(Audited, PlainWorkflow): ...

    assert names(AuditedOrder)[0] == "audits_1"
    assert names(AuditedReturn) == ["audits_1"]


def test_steps_of_two_workflows_are_joined_without_duplicates() -> None:
    class GiftOrder(Order):
        @step
        def wrap(self) -> None: ...

    class ExpressOrder(Order):
        @step(before="ship")
        def hurry(self) -> None: ...

    class ExpressGift(GiftOrder, ExpressOrder): ...

    assert names(ExpressGift) == ["reserve", "ship", "thank", "wrap", "hurry"]


def test_cancel_conditions_add_up_parents_first() -> None:
    # DEF-47, DEF-46
    class GiftOrder(Order):
        @cancel_if
        def unwrapped(self) -> bool:
            return True

        @cancel_if
        def withdrawn(self) -> bool:
            return True

    assert [each.rule for each in GiftOrder.definition.cancel_conditions] == ["withdrawn", "unwrapped"]
    assert [each.rule for each in Order.definition.cancel_conditions] == ["withdrawn"]


def test_policies_add_up_in_the_order_of_declaration() -> None:
    # DEF-46
    class GiftOrder(Order):
        @on_exception(ValueError)
        def unwrap(self, error: ValueError) -> None: ...

        exception_policies = [ExceptionPolicy("cancel", matching=OSError)]

    policies = GiftOrder.definition.exception_policies

    assert [each.action for each in policies] == ["skip", None, "cancel"]
    assert len(Order.definition.exception_policies) == 1


def test_a_handler_that_is_marked_again_counts_with_its_new_mark_only() -> None:
    class Parent(PlainWorkflow):
        @on_exception(ValueError)
        def calm(self, error: Exception) -> None: ...

    class Child(Parent):
        @on_exception(KeyError)
        def calm(self, error: Exception) -> None: ...

    (policy,) = Child.definition.exception_policies

    assert policy.matching == (KeyError,)


def test_job_options_are_merged_along_the_inheritance() -> None:
    # JOB-01, JOB-02, JOB-15, DEF-46
    class GiftOrder(Order):
        job_options = {"queue": "gifts", "at_front": True}

    assert GiftOrder.definition.job_options == {"queue": "gifts", "timeout": 60, "at_front": True}
    assert Order.definition.job_options == {"queue": "orders", "timeout": 60}


def test_proceeding_without_a_hero_is_inherited_and_off_by_default() -> None:
    # DEF-48
    class Cleanup(PlainWorkflow):
        may_proceed_without_hero = True

    class NightlyCleanup(Cleanup): ...

    assert NightlyCleanup.definition.may_proceed_without_hero
    assert not Order.definition.may_proceed_without_hero


def test_a_class_is_stored_under_its_name_or_another() -> None:
    class Renamed(PlainWorkflow):
        __workflow_name__ = "OldName"

    class Child(Renamed): ...

    assert (Renamed.definition.name, Child.definition.name) == ("OldName", "Child")


def test_a_definition_cannot_be_changed() -> None:
    definition: Any = Order.definition

    with pytest.raises(AttributeError):
        definition.name = "other"
    with pytest.raises(TypeError):
        definition.job_options["queue"] = "other"


@pytest.mark.parametrize(
    ("attribute", "value", "phrase"),
    [
        ("exception_policies", ExceptionPolicy("skip"), "must be a list"),
        ("exception_policies", ["skip"], "ExceptionPolicy objects only"),
        ("job_options", ["orders"], "must be a mapping"),
        ("job_options", {"priority": 1}, "'priority'"),
        ("may_proceed_without_hero", "yes", "True or False"),
        ("__workflow_name__", "", "__workflow_name__"),
    ],
)
def test_a_wrong_class_option_is_refused(attribute: str, value: Any, phrase: str) -> None:
    # JOB-06, JOB-08, JOB-09
    with mistake("Wrong", phrase):
        type("Wrong", (PlainWorkflow,), {attribute: value})
