"""``skip_if``, ``run_if`` and ``cancel_if``: yes-or-no questions that are asked before a step runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, overload

from flask_geneva.definition.declarations import Declaration, call_site, plain_function
from flask_geneva.definition.methods import find_method
from flask_geneva.definition.options import UNSET, was_given
from flask_geneva.definition.signatures import objection_to
from flask_geneva.errors import StepConfigurationError

Rule: TypeAlias = Callable[[Any], object] | str | bool
ConditionMethod = TypeVar("ConditionMethod", bound=Callable[[Any], object])


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A question about a workflow: a method of it by name, a callable that takes it, or a fixed answer."""

    rule: Rule
    negated: bool = False

    def holds(self, workflow: object) -> bool:
        """Ask; whatever the user's code raises propagates."""
        return bool(self._answer(workflow)) is not self.negated

    def _answer(self, workflow: object) -> object:
        if isinstance(self.rule, bool):
            return self.rule
        if isinstance(self.rule, str):
            return getattr(workflow, self.rule)()
        return self.rule(workflow)


def read_condition(*, skip_if: object = UNSET, run_if: object = UNSET, where: str) -> Condition | None:
    """Return the condition under which the step is skipped, if there is one."""
    if skip_if is not UNSET and run_if is not UNSET:
        raise StepConfigurationError(
            f"{where}: cannot specify both skip_if and run_if. Keep one, and join the two conditions in it."
        )
    if was_given(skip_if):
        return Condition(rule=_read_rule(skip_if, f"{where}: skip_if"))
    if was_given(run_if):
        return Condition(rule=_read_rule(run_if, f"{where}: run_if"), negated=True)
    return None


def check_condition(condition: Condition, workflow_class: type, what: str) -> None:
    """Check that a condition that names a method of the class can be asked."""
    if isinstance(condition.rule, str):
        find_method(workflow_class, condition.rule, "self", what=what)


def _read_rule(value: object, what: str) -> Rule:
    value = plain_function(value)
    if isinstance(value, bool | str):
        return value
    if not callable(value) or isinstance(value, type):
        raise StepConfigurationError(
            f"{what} must be a callable that takes the workflow, the name of a method, or a bool, not {value!r}."
        )
    objection = objection_to(value, "workflow")
    if objection:
        raise StepConfigurationError(f"{what}: {value!r} {objection}.")
    return value


class CancelDeclaration(Declaration):
    """A method under ``@cancel_if``."""

    keyword = "@cancel_if"


@overload
def cancel_if(method: ConditionMethod, /) -> ConditionMethod: ...
@overload
def cancel_if() -> Callable[[ConditionMethod], ConditionMethod]: ...
def cancel_if(method: Callable[[Any], object] | None = None, /) -> Any:
    """Mark a method that is asked before each attempt at any step; a true answer cancels the workflow.

    Several methods of a class may be marked; subclasses inherit them, and may override their bodies.
    """
    return CancelDeclaration(call_site(), method)
