"""Reading a workflow class, once, when it is created, into a value that never changes."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from flask_geneva.definition.class_body import Layer, read_body
from flask_geneva.definition.conditions import Condition, check_condition
from flask_geneva.definition.declarations import Declaration, class_body_of
from flask_geneva.definition.exception_policies import ExceptionPolicy, MethodHandler
from flask_geneva.definition.job_options import merge_job_options
from flask_geneva.definition.methods import find_method
from flask_geneva.definition.options import read_name
from flask_geneva.definition.step_sequence import StepSequence, place
from flask_geneva.definition.steps import StepDefinition
from flask_geneva.errors import StepConfigurationError

logger = logging.getLogger(__name__)

_CLASS_OPTIONS = frozenset({"exception_policies", "job_options", "may_proceed_without_hero"})


@dataclass(frozen=True, kw_only=True)
class WorkflowDefinition:
    """What a workflow class and its parents say; policies stand in the order of their declaration, parents first."""

    name: str
    former_names: tuple[str, ...] = ()
    steps: StepSequence = field(default_factory=StepSequence)
    cancel_conditions: tuple[Condition, ...] = ()
    exception_policies: tuple[ExceptionPolicy, ...] = ()
    job_options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    may_proceed_without_hero: bool = False

    @property
    def stored_names(self) -> tuple[str, ...]:
        """The names that rows of the class have: the one that is written, and the former ones."""
        return (self.name, *self.former_names)


def read_definition(cls: type, *, reserved: frozenset[str] = frozenset()) -> WorkflowDefinition:
    """Read the class; its decorated methods are plain functions when this returns.

    Base classes that carry a ``definition`` contribute it, others their own bodies. ``reserved`` are the names that
    no step may have.

    :raises StepConfigurationError: for every mistake, naming class, step and remedy.
    """
    reserved |= _CLASS_OPTIONS
    bases = list(_layers_of_bases(cls, reserved))
    own = read_body(cls, cls, reserved)
    listed = [layer for layers in bases for layer in layers]
    # The first base comes first where there is an order of steps, and last where the last word counts.
    rising = [layer for layers in reversed(bases) for layer in layers]
    name = read_name(vars(cls).get("__workflow_name__", cls.__name__), what=f"{cls.__name__}: __workflow_name__")
    definition = WorkflowDefinition(
        name=name,
        former_names=_former_names(cls, name),
        steps=_steps(cls, listed, own),
        cancel_conditions=tuple(dict.fromkeys(each for layer in [*listed, own] for each in layer.cancel_conditions)),
        exception_policies=tuple(_policies(rising, own)),
        job_options=MappingProxyType(merge_job_options(*(layer.job_options for layer in [*rising, own]))),
        may_proceed_without_hero=_may_proceed_without_hero(cls),
    )
    _check_methods(cls, definition)
    return definition


def named_apart(
    cls: type, definition: WorkflowDefinition, class_called: Callable[[str], type | None]
) -> WorkflowDefinition:
    """See to it that no two classes share a name, by which their rows are told apart."""
    known = class_called(definition.name)
    if known is None or _path(known) == _path(cls):
        return definition
    remedy = f"Set '__workflow_name__' on one of {_path(known)} and {_path(cls)}"
    if "__workflow_name__" in vars(cls):
        raise StepConfigurationError(f"{cls.__name__}: the workflow name '{definition.name}' is taken. {remedy}.")
    logger.warning("Two workflow classes are called '%s'; the second is stored by its path. %s.", cls.__name__, remedy)
    return replace(definition, name=_path(cls))


def refuse_foreign_rows(cls: type, definition: WorkflowDefinition, others: Iterable[Any]) -> None:
    """See to it that a former name is no name that another class has or had: a row belongs to one class."""
    for other in others:
        shared = {*definition.former_names, *other.definition.former_names}
        shared &= {*definition.stored_names} & {*other.definition.stored_names}
        if shared and _path(other) != _path(cls):
            raise StepConfigurationError(
                f"{cls.__name__}: rows named '{min(shared)}' cannot belong to both {_path(other)} and {_path(cls)}. "
                f"Take the name out of '__former_names__', or give the class that has it a '__workflow_name__'."
            )


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _former_names(cls: type, name: str) -> tuple[str, ...]:
    value, what = vars(cls).get("__former_names__", ()), f"{cls.__name__}: __former_names__"
    if not isinstance(value, list | tuple):
        raise StepConfigurationError(f"{what} must be a list of the names that the class had, not {value!r}.")
    names = tuple(read_name(each, what=f"{what}: each of them") for each in value)
    if name in names or len(set(names)) < len(names):
        raise StepConfigurationError(f"{what} must name each former name once, and not '{name}', which it has now.")
    return names


def _layers_of_bases(cls: type, reserved: frozenset[str]) -> Iterator[list[Layer]]:
    for base in cls.__bases__:
        definition = getattr(base, "definition", None)
        if isinstance(definition, WorkflowDefinition):
            yield [_layer_of(definition)]
        else:
            yield [read_body(each, cls, reserved) for each in reversed(base.__mro__)]


def _layer_of(definition: WorkflowDefinition) -> Layer:
    return Layer(
        steps=list(definition.steps.values()),
        cancel_conditions=list(definition.cancel_conditions),
        exception_policies=list(definition.exception_policies),
        job_options=definition.job_options,
        is_in_place=True,
    )


def _steps(cls: type, inherited: Iterable[Layer], own: Layer) -> StepSequence:
    known: list[StepDefinition] = []
    for layer in inherited:
        names = {step.name for step in known}
        # Of two bases with a step of one name the first one's counts, as it does for methods.
        added = [step for step in layer.steps if step.name not in names]
        known = known + added if layer.is_in_place else place(known, _all_different(cls, added), cls.__name__)
    _all_different(cls, own.steps)
    _check_overrides(cls, known, own)
    graves = {step.name: step for step in own.steps if step.removed}
    buried = [graves.pop(step.name, step) for step in known]
    declared = [step for step in own.steps if step.runnable or step.name in graves]
    return StepSequence(place(buried, declared, cls.__name__))


def _all_different(cls: type, steps: list[StepDefinition]) -> list[StepDefinition]:
    first: dict[str, StepDefinition] = {}
    for step in steps:
        if first.setdefault(step.name, step) is not step:
            raise StepConfigurationError(
                f"{_where(cls, step)}: the name '{step.name}' is already defined, at {first[step.name].source}. "
                f"Rename one of the two steps, or pass name=."
            )
    return steps


def _check_overrides(cls: type, known: list[StepDefinition], own: Layer) -> None:
    by_name = {step.name: step for step in known}
    for step in own.steps:
        if step.runnable and step.name in by_name:
            raise StepConfigurationError(_already_inherited(cls, step, by_name[step.name]))
    by_method = {step.method_name: step for step in known if step.runnable}
    for attribute, value in vars(cls).items():
        if attribute not in class_body_of(cls).bound:
            _refuse_vain_override(cls, attribute, value, by_name.get(attribute))
        elif inspect.isfunction(value) and attribute in by_method:
            raise StepConfigurationError(
                f"{_where(cls, by_method[attribute])}: its method '{attribute}' is overridden with a decorator. "
                f"Drop the decorator: the step keeps its place and its options."
            )


def _already_inherited(cls: type, step: StepDefinition, inherited: StepDefinition) -> str:
    if inherited.removed:
        return (
            f"{_where(cls, step)}: '{step.name}' is already defined as a removed step, at {inherited.source}, and "
            f"workflows may still stand at it. Choose another name."
        )
    return (
        f"{_where(cls, step)}: '{step.name}' is already defined in a parent class, at {inherited.source}. To replace "
        f"its body override the method without a decorator, to remove it write {step.name} = removed_step(), and "
        f"otherwise choose another name."
    )


def _refuse_vain_override(cls: type, attribute: str, value: object, step: StepDefinition | None) -> None:
    """A method called like an inherited step that runs another method would never be called."""
    if step is None or step.removed or step.method_name == attribute or not inspect.isfunction(value):
        return
    hidden = getattr(super(cls, cls), attribute, None)
    if hidden is None or isinstance(hidden, Declaration):
        raise StepConfigurationError(
            f"{_where(cls, step)}: the step runs the method '{step.method_name}', so that the method '{attribute}' "
            f"would not override it. Override '{step.method_name}', or rename the method."
        )


def _policies(inherited: list[Layer], own: Layer) -> Iterator[ExceptionPolicy]:
    """A handler that a subclass marks again counts with its new mark only."""
    marked_again = {_method_of(policy) for policy in own.exception_policies} - {None}
    seen: set[int] = set()
    for layer in inherited:
        for policy in layer.exception_policies:
            if _method_of(policy) not in marked_again and id(policy) not in seen:
                seen.add(id(policy))
                yield policy
    yield from own.exception_policies


def _method_of(policy: ExceptionPolicy) -> str | None:
    return policy.handler.method_name if isinstance(policy.handler, MethodHandler) else None


def _may_proceed_without_hero(cls: type) -> bool:
    value = getattr(cls, "may_proceed_without_hero", False)
    if isinstance(value, bool):
        return value
    raise StepConfigurationError(f"{cls.__name__}: may_proceed_without_hero must be True or False, not {value!r}.")


def _check_methods(cls: type, definition: WorkflowDefinition) -> None:
    for step in definition.steps.runnable:
        arguments = ("self", "it") if step.resumable else ("self",)
        find_method(cls, step.method_name, *arguments, what=_where(cls, step))
        if step.condition is not None:
            check_condition(step.condition, cls, f"{_where(cls, step)}: its condition")
    for condition in definition.cancel_conditions:
        check_condition(condition, cls, f"{cls.__name__}: @cancel_if")
    for policy in definition.exception_policies:
        method_name = _method_of(policy)
        if method_name is not None:
            find_method(cls, method_name, "self", "error", what=f"{cls.__name__}: @on_exception")


def _where(cls: type, step: StepDefinition) -> str:
    return f"{cls.__name__}, step '{step.name}' ({step.source})"
