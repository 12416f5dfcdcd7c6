"""What ``wait_for`` takes: signal names, :class:`SignalMatcher`, and objects of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Number
from typing import Any, Protocol, TypeAlias, runtime_checkable

from flask_geneva.definition.options import read_name
from flask_geneva.definition.signatures import objection_to
from flask_geneva.errors import StepConfigurationError

_FORMS = "a signal name, a SignalMatcher, an object with a method matches(signal), or a list of these"


class ReceivedSignal(Protocol):
    """What a matcher may look at."""

    @property
    def name(self) -> str: ...
    @property
    def payload(self) -> Any: ...


@runtime_checkable
class CustomMatcher(Protocol):
    """A matcher of the user's own."""

    def matches(self, signal: Any, /) -> object: ...


@dataclass(frozen=True)
class SignalMatcher:
    """Accept signals called ``name`` for which ``predicate(workflow, payload)`` is true, or all of that name.

    It holds no state, so one object may serve many steps and classes.
    """

    name: str
    predicate: Callable[[Any, Any], object] | None = None

    def __post_init__(self) -> None:
        read_name(self.name, what="SignalMatcher: the name of the signal")
        if self.predicate is not None:
            _check_predicate(self.predicate, f"SignalMatcher({self.name!r}): predicate")

    def __repr__(self) -> str:
        condition = "" if self.predicate is None else f", {self.predicate!r}"
        return f"SignalMatcher({self.name!r}{condition})"


Matcher: TypeAlias = SignalMatcher | CustomMatcher
WaitFor: TypeAlias = str | SignalMatcher | CustomMatcher | Sequence[str | SignalMatcher | CustomMatcher]


def read_wait_for(value: object, *, where: str) -> tuple[Matcher, ...]:
    """Check the ``wait_for`` of a step; None is no matcher at all."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        if not value:
            raise StepConfigurationError(f"{where}: wait_for is empty. Name the signals, or leave it out.")
        return tuple(_read_matcher(each, where) for each in value)
    return (_read_matcher(value, where),)


def accepts(matchers: Iterable[Matcher], workflow: object, signal: ReceivedSignal) -> bool:
    """Whether any matcher accepts the signal; whatever the user's code raises propagates."""
    return any(_accepts(matcher, workflow, signal) for matcher in matchers)


def could_match_name(matchers: Iterable[Matcher], name: str) -> bool:
    """Whether a signal of this name may be accepted; only a look at the signal can tell for custom matchers."""
    return any(not isinstance(matcher, SignalMatcher) or matcher.name == name for matcher in matchers)


def describe(matchers: Iterable[Matcher]) -> str:
    """Name what is awaited, for people."""
    matchers = tuple(matchers)
    names = [f"'{matcher.name}'" for matcher in matchers if isinstance(matcher, SignalMatcher)]
    others = [f"a signal accepted by {type(each).__name__}" for each in matchers if not isinstance(each, SignalMatcher)]
    named = f"any of the signals {', '.join(names)}" if len(names) > 1 else f"signal {''.join(names)}"
    return " or ".join([named, *others] if names else others)


def looks_like_signal(value: object) -> bool:
    """Whether a value that was given as a duration must have been meant for ``wait_for``."""
    return isinstance(value, str | SignalMatcher) or callable(getattr(value, "matches", None))


def _accepts(matcher: Matcher, workflow: object, signal: ReceivedSignal) -> bool:
    if not isinstance(matcher, SignalMatcher):
        return bool(matcher.matches(signal))
    if matcher.name != signal.name:
        return False
    return matcher.predicate is None or bool(matcher.predicate(workflow, signal.payload))


def _read_matcher(value: object, where: str) -> Matcher:
    if isinstance(value, SignalMatcher):
        return value
    if isinstance(value, str):
        return SignalMatcher(read_name(value, what=f"{where}: the name of the signal in wait_for"))
    if isinstance(value, timedelta | date | datetime | time | Number | Decimal) and not isinstance(value, bool):
        raise StepConfigurationError(
            f"{where}: wait_for={value!r} is a time, and wait_for takes {_FORMS}. "
            f"To wait for a while use wait=, for example wait=timedelta(days=1)."
        )
    if isinstance(value, CustomMatcher) and not isinstance(value, type):
        _check_custom(value, where)
        return value
    raise StepConfigurationError(f"{where}: wait_for takes {_FORMS}, not {value!r} of class {type(value).__name__}.")


def _check_predicate(predicate: object, what: str) -> None:
    if not callable(predicate):
        raise StepConfigurationError(f"{what} must be a callable that takes (workflow, payload), not {predicate!r}.")
    objection = objection_to(predicate, "workflow", "payload")
    if objection:
        raise StepConfigurationError(f"{what} {objection}.")


def _check_custom(matcher: CustomMatcher, where: str) -> None:
    if not callable(matcher.matches):
        raise StepConfigurationError(f"{where}: wait_for={matcher!r} has an attribute 'matches' that is no method.")
    objection = objection_to(matcher.matches, "signal")
    if objection:
        raise StepConfigurationError(f"{where}: matches of wait_for={matcher!r} {objection}.")
