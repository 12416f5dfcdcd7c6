"""What ``matching`` of an exception policy takes, and whether it matches an error."""

from __future__ import annotations

import builtins
import pkgutil
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

from flask_geneva.definition.declarations import plain_function
from flask_geneva.definition.signatures import objection_to
from flask_geneva.errors import StepConfigurationError

ExceptionMatcher: TypeAlias = type[BaseException] | str | Callable[[Any], object]
Matching: TypeAlias = ExceptionMatcher | Sequence[ExceptionMatcher]

_FORMS = "an exception class, the dotted name of one, a callable that takes the error, or a list of these"


def read_matching(value: object, actions: Collection[str], *, what: str) -> tuple[ExceptionMatcher, ...]:
    """Check what a user gave; the names of actions are refused as names of classes."""
    given = tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)
    if not given:
        raise StepConfigurationError(f"{what} is empty and would match nothing. Leave it out to match every error.")
    return tuple(_read_matcher(each, actions, what) for each in given)


def matches(matcher: ExceptionMatcher, error: BaseException) -> bool:
    """Whether the error matches; an error that a predicate raises propagates."""
    if isinstance(matcher, str):
        return isinstance(error, _resolved(matcher))
    if isinstance(matcher, type):
        return isinstance(error, matcher)
    return bool(matcher(error))


def _read_matcher(value: object, actions: Collection[str], what: str) -> ExceptionMatcher:
    value = plain_function(value)
    if isinstance(value, str) and value.strip() and value not in actions:
        return value
    if isinstance(value, type) and issubclass(value, BaseException):
        return value
    if callable(value) and not isinstance(value, type):
        return _checked(value, what)
    hint = " An action is the first argument of ExceptionPolicy." if value in actions else ""
    raise StepConfigurationError(f"{what} must be {_FORMS}, not {value!r}.{hint}")


def _checked(predicate: Callable[..., object], what: str) -> ExceptionMatcher:
    objection = objection_to(predicate, "error")
    if objection:
        raise StepConfigurationError(f"{what}: {predicate!r} {objection}.")
    return predicate


def _resolved(name: str) -> type[BaseException] | tuple[()]:
    """Return the class, or no class at all; importing the module that it names may fail in any way."""
    try:
        found = getattr(builtins, name, None) or pkgutil.resolve_name(name)
    except Exception:
        return ()
    return found if isinstance(found, type) and issubclass(found, BaseException) else ()
