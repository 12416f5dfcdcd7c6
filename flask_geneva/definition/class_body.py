"""Reading one class body: the steps, conditions, policies and job options that it declares, in its order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from flask_geneva.definition.compiled_body import methods_defined_twice, name_given_after
from flask_geneva.definition.conditions import CancelDeclaration, Condition
from flask_geneva.definition.declarations import ClassBody, Declaration, class_body_of, plain_function
from flask_geneva.definition.exception_policies import ExceptionPolicy, HandlerDeclaration
from flask_geneva.definition.job_options import read_job_options
from flask_geneva.definition.options import read_name
from flask_geneva.definition.signatures import objection_to
from flask_geneva.definition.step_options import define_step
from flask_geneva.definition.steps import RemovedStepDeclaration, StepDeclaration, StepDefinition
from flask_geneva.errors import StepConfigurationError


@dataclass(kw_only=True)
class Layer:
    """What one class adds to a definition, or what a parent's definition says; its steps are in place already."""

    steps: list[StepDefinition] = field(default_factory=list)
    cancel_conditions: list[Condition] = field(default_factory=list)
    exception_policies: list[ExceptionPolicy] = field(default_factory=list)
    job_options: Mapping[str, Any] = field(default_factory=dict)
    is_in_place: bool = False


def read_body(owner: type, workflow_class: type, reserved: frozenset[str]) -> Layer:
    """Read the body of ``owner``, which is ``workflow_class`` or a plain mixin of it."""
    body = class_body_of(owner)
    reading = _Reading(owner, workflow_class, reserved, body)
    reading.read()
    _refuse_lost(body, reading)
    _refuse_defined_twice(body, reading)
    return reading.layer


class _Reading:
    def __init__(self, owner: type, workflow_class: type, reserved: frozenset[str], body: ClassBody) -> None:
        self.owner = owner
        self.workflow_class = workflow_class
        self.reserved = reserved
        self.body = body
        self.layer = Layer()
        self.held: list[Declaration] = []

    def read(self) -> None:
        # A copy, since a callable in a list becomes a method of the class on the way.
        for attribute, value in list(vars(self.owner).items()):
            declaration = self.body.bound.get(attribute)
            if declaration is not None:
                self._read_declaration(attribute, declaration)
            elif isinstance(value, list | tuple) and any(isinstance(each, Declaration) for each in value):
                self._read_list(attribute, value)
            elif attribute == "exception_policies" and self._is_ours(value, list | tuple):
                self.layer.exception_policies += self._policies(value)
            elif attribute == "job_options" and self._is_ours(value, Mapping):
                self.layer.job_options = read_job_options(value, where=self.workflow_class.__name__)

    def _is_ours(self, value: object, kind: Any) -> bool:
        """What a base class that is no workflow holds under one of our names is ours only if it is of our kind."""
        return self.owner is self.workflow_class or isinstance(value, kind)

    def where(self, declaration: Declaration, name: str) -> str:
        return f"{self.workflow_class.__name__}, {_NOUNS[type(declaration)]} '{name}' ({declaration.source})"

    def _read_declaration(self, attribute: str, declaration: Declaration) -> None:
        where = self.where(declaration, attribute)
        self.held.append(declaration)
        self._check_name(attribute, where)
        _refuse_misuse(attribute, declaration, where)
        if declaration.function is None and declaration.was_applied:
            return
        if isinstance(declaration, StepDeclaration):
            self.layer.steps.append(self._step(attribute, declaration, self.owner_function(attribute)))
        elif isinstance(declaration, RemovedStepDeclaration):
            self.layer.steps.append(_gravestone(attribute, declaration, where))
        elif declaration.function is None:
            raise StepConfigurationError(f"{where}: {_nothing_marked(declaration)}")
        elif isinstance(declaration, CancelDeclaration):
            self.layer.cancel_conditions.append(Condition(rule=attribute))
        elif isinstance(declaration, HandlerDeclaration):
            self.layer.exception_policies.append(declaration.policy(attribute, where))

    def _read_list(self, attribute: str, members: Sequence[object]) -> None:
        where = f"{self.workflow_class.__name__}, '{attribute}'"
        self._check_name(attribute, where)
        for place, member in enumerate(members, start=1):
            if isinstance(member, RemovedStepDeclaration):
                raise StepConfigurationError(
                    f"{where}: removed_step() ({member.source}) takes its name from its attribute, and cannot stand "
                    f"in a list. Write {attribute}_{place} = removed_step()."
                )
            if not isinstance(member, StepDeclaration):
                raise StepConfigurationError(f"{where}: a list of steps holds nothing but step(...), not {member!r}.")
            self.held.append(member)
            defined = self._step(f"{attribute}_{place}", member, None)
            is_numbered = member.options.get("name") is None
            self.layer.steps.append(replace(defined, numbered_in=attribute) if is_numbered else defined)

    def _step(self, default_name: str, declaration: StepDeclaration, method: object) -> StepDefinition:
        name = self._step_name(default_name, declaration)
        where = self.where(declaration, name)
        self._check_name(name, where)
        method_name = self._method_name(default_name if method is not None else name, declaration, where)
        return define_step(declaration, name, method_name, where)

    def _step_name(self, default_name: str, declaration: StepDeclaration) -> str:
        given = declaration.options.get("name")
        if given is None:
            return default_name
        return read_name(given, what=f"{self.where(declaration, default_name)}: name")

    def _check_name(self, name: str, where: str) -> None:
        if name in self.reserved or (name.startswith("__") and name.endswith("__")):
            raise StepConfigurationError(
                f"{where}: '{name}' is an attribute of every workflow, and cannot be replaced. Choose another name."
            )

    def _method_name(self, attribute: str, declaration: StepDeclaration, where: str) -> str:
        if isinstance(declaration.target, str):
            return declaration.target
        function = declaration.function
        if function is None:
            raise StepConfigurationError(_nothing_to_call(declaration, where))
        _check_callable(declaration, where)
        own_name = getattr(function, "__name__", "")
        if getattr(self.owner, own_name, None) is function:
            return own_name
        present = vars(self.owner).get(attribute, function)
        if present is not function:
            raise StepConfigurationError(
                f"{where}: its callable would become the method '{attribute}', and the class has another attribute of "
                f"that name. Pass name=, or rename the attribute."
            )
        setattr(self.owner, attribute, function)
        return attribute

    def owner_function(self, attribute: str) -> object:
        value = vars(self.owner)[attribute]
        return value if isinstance(value, FunctionType) else None

    def _policies(self, value: object) -> Iterator[ExceptionPolicy]:
        where = f"{self.workflow_class.__name__}: exception_policies"
        if not isinstance(value, list | tuple):
            raise StepConfigurationError(f"{where} must be a list of ExceptionPolicy objects, not {value!r}.")
        for each in value:
            if not isinstance(each, ExceptionPolicy):
                raise StepConfigurationError(f"{where} must hold ExceptionPolicy objects only, not {each!r}.")
            yield each


_NOUNS = {
    StepDeclaration: "step",
    RemovedStepDeclaration: "removed step",
    CancelDeclaration: "@cancel_if",
    HandlerDeclaration: "@on_exception",
}
_ALREADY_DEFINED = (
    "{where}: the name '{name}' is already defined in this class body, and one definition would hide the other. "
    "Rename one of them. (Other decorators go below that of the step.)"
)


def _refuse_misuse(attribute: str, declaration: Declaration, where: str) -> None:
    inner = declaration.target
    if isinstance(inner, Declaration) and inner.named == attribute:
        raise StepConfigurationError(
            f"{where}: the method is marked twice, with {inner.keyword} and {declaration.keyword}. Keep one of them."
        )
    if declaration.misplaced is not None:
        raise StepConfigurationError(
            f"{where}: {declaration.keyword}({declaration.misplaced!r}) names a method, and stands above one. "
            f"Write {declaration.keyword}(name=...) to give the step another name."
        )
    if declaration.replaces_method and declaration.named == attribute:
        raise StepConfigurationError(_ALREADY_DEFINED.format(where=where, name=attribute))


def _nothing_marked(declaration: Declaration) -> str:
    arguments = "(self, error)" if isinstance(declaration, HandlerDeclaration) else "(self)"
    return f"{declaration.keyword} marks a method {arguments}. Put it above one."


def _gravestone(name: str, declaration: RemovedStepDeclaration, where: str) -> StepDefinition:
    if declaration.arguments:
        raise StepConfigurationError(
            f"{where}: removed_step() takes no arguments, not ({', '.join(declaration.arguments)}); "
            f"its name is that of the attribute. Write {name} = removed_step()."
        )
    return StepDefinition(name=name, method_name=name, source=declaration.source, removed=True)


def _nothing_to_call(declaration: StepDeclaration, where: str) -> str:
    given = "" if declaration.target is None else f", not {declaration.target!r}"
    return (
        f"{where}: {declaration.keyword} goes above a method, or takes a callable or the name of a method as its "
        f"first argument{given}."
    )


def _check_callable(declaration: StepDeclaration, where: str) -> None:
    """A function is checked as the method that it becomes; any other callable has to be checked as it was given."""
    target: Any = plain_function(declaration.target)
    if isinstance(target, FunctionType):
        return
    if isinstance(target, staticmethod | classmethod):
        raise StepConfigurationError(f"{where}: a step is an ordinary method (self), not {target!r}.")
    objection = objection_to(target, *(("workflow", "it") if declaration.resumable else ("workflow",)))
    if objection:
        raise StepConfigurationError(f"{where}: {target!r} {objection}.")


def _refuse_lost(body: ClassBody, reading: _Reading) -> None:
    held = {id(declaration) for declaration in reading.held}
    for declaration in body.made:
        if id(declaration) in held or declaration.was_applied or body.code is None:
            continue
        name = name_given_after(body.code, declaration.offset)
        where = reading.where(declaration, name or declaration.named or "without a name")
        present = vars(reading.owner).get(name or "")
        if present is not None and not isinstance(present, dict | set):
            raise StepConfigurationError(_ALREADY_DEFINED.format(where=where, name=name))
        call = declaration.keyword.removeprefix("@").removesuffix("()")
        raise StepConfigurationError(
            f"{where}: no attribute of the class holds it, by itself or in a list. Write name = {call}(...)."
        )


def _refuse_defined_twice(body: ClassBody, reading: _Reading) -> None:
    twice = methods_defined_twice(body.code) if body.code is not None else set()
    for step in reading.layer.steps:
        if step.method_name in twice and step.runnable:
            raise StepConfigurationError(
                f"{reading.workflow_class.__name__}, step '{step.name}' ({step.source}): the method "
                f"'{step.method_name}' is already defined in this class body when it is defined once more, and only "
                f"the last one would count. Rename one of them."
            )
