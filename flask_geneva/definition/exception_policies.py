"""What happens to a workflow when a step raises: the policies, and which of them applies to an error.

The order of precedence is the step's own policies, then the class's, then a pause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, overload

from flask_geneva.definition.backoff import Backoff, Strategy, WaitFunction, read_backoff, wait_before
from flask_geneva.definition.declarations import CallSite, Declaration, call_site, plain_function
from flask_geneva.definition.durations import Duration
from flask_geneva.definition.exception_matchers import ExceptionMatcher, Matching, matches, read_matching
from flask_geneva.definition.options import UNSET, Unset, listing, read_choice, read_positive_integer, refuse_unknown
from flask_geneva.definition.signatures import accepts, objection_to
from flask_geneva.definition.verdicts import Canceled, Paused, Reattempted, Skipped, Verdict
from flask_geneva.errors import StepConfigurationError

Action: TypeAlias = Literal["pause", "cancel", "reattempt", "skip"]
TerminalAction: TypeAlias = Literal["pause", "cancel", "skip"]
Report: TypeAlias = Literal["always", "never", "terminal_only"]
Handler: TypeAlias = Callable[[Any, Any], object]
HandlerMethod = TypeVar("HandlerMethod", bound=Handler)

ACTIONS = ("pause", "cancel", "reattempt", "skip")
TERMINAL_ACTIONS = ("pause", "cancel", "skip")
REPORTS = ("always", "never", "terminal_only")
DEFAULT_MAX_REATTEMPTS: Final = 100
DEFAULT: Final = UNSET

_ENDINGS: dict[str, type[Paused] | type[Canceled] | type[Skipped]] = {
    "pause": Paused,
    "cancel": Canceled,
    "skip": Skipped,
}


@dataclass(frozen=True, init=False, repr=False)
class ExceptionPolicy:
    """Say what an error does: an action by name, or a handler ``(workflow, error)`` that ends in a verb.

    Without ``matching`` it applies to every error. ``matching`` takes an exception class, its dotted name, a
    predicate ``(error)``, or a list of these; a dotted name that cannot be resolved matches nothing. An error that a
    predicate or a ``wait`` function raises propagates to the engine, which pauses the workflow.
    """

    action: str | None
    handler: Handler | None
    matching: tuple[ExceptionMatcher, ...] | None
    wait: Backoff
    max_reattempts: int | None
    has_explicit_cap: bool
    terminal_action: str
    report: str

    def __init__(
        self,
        action: Action | None = None,
        *,
        handler: Handler | None = None,
        matching: Matching | None = None,
        wait: Duration | Strategy | WaitFunction | None = None,
        max_reattempts: int | Unset | None = DEFAULT,
        terminal_action: TerminalAction = "pause",
        report: Report = "always",
    ) -> None:
        what = "ExceptionPolicy" if action is None else f"ExceptionPolicy({action!r})"
        _check_action_or_handler(action, handler, what)
        _only_for_reattempt(action, wait, max_reattempts, terminal_action, what)
        self._assign(
            action=action,
            handler=None if handler is None else read_handler(handler, what=f"{what}: handler"),
            matching=None if matching is None else read_matching(matching, ACTIONS, what=f"{what}: matching"),
            wait=read_backoff(wait, what=f"{what}: wait"),
            max_reattempts=_cap_of(action, max_reattempts, f"{what}: max_reattempts"),
            has_explicit_cap=max_reattempts is not DEFAULT,
            terminal_action=read_choice(terminal_action, TERMINAL_ACTIONS, what=f"{what}: terminal_action"),
            report=read_choice(report, REPORTS, what=f"{what}: report"),
        )

    def _assign(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def is_blanket(self) -> bool:
        """Whether it applies to every error."""
        return self.matching is None

    @property
    def may_reattempt(self) -> bool:
        """Whether it can ask for another attempt."""
        return self.handler is not None or self.action == "reattempt"

    def matches(self, error: BaseException) -> bool:
        """Whether it applies to this error."""
        return self.matching is None or any(matches(matcher, error) for matcher in self.matching)

    def __repr__(self) -> str:
        facts = [repr(self.action)] if self.handler is None else [f"handler={self.handler!r}"]
        facts += [f"matching=[{', '.join(map(_readable, self.matching))}]"] if self.matching is not None else []
        facts += [f"wait={self.wait!r}"] if self.wait is not None else []
        facts += [f"max_reattempts={self.max_reattempts!r}"] if self.has_explicit_cap else []
        facts += [f"terminal_action={self.terminal_action!r}"] if self.terminal_action != "pause" else []
        facts += [f"report={self.report!r}"] if self.report != "always" else []
        return f"ExceptionPolicy({', '.join(facts)})"


@dataclass(frozen=True, kw_only=True)
class AppliedPolicy:
    """The policy that applies to an error, and how many reattempts it may grant in a row; None is no limit."""

    policy: ExceptionPolicy
    cap: int | None

    @property
    def is_default(self) -> bool:
        """Whether it applies because nobody has said anything about the error."""
        return self.policy is _PAUSE


class _HasPolicies(Protocol):
    @property
    def exception_policies(self) -> tuple[ExceptionPolicy, ...]: ...


def policy_for(
    step: _HasPolicies | None, class_policies: Sequence[ExceptionPolicy], error: BaseException
) -> AppliedPolicy:
    """Return the policy that applies to the error; without any it is a pause.

    ``class_policies`` come in the order of their declaration, parents first.
    """
    own = step.exception_policies if step is not None else ()
    policy = _first_match(own, error)
    if policy is not None:
        return AppliedPolicy(policy=policy, cap=_common_cap(policy, own))
    policy = _first_match(tuple(reversed(class_policies)), error) or _PAUSE
    return AppliedPolicy(policy=policy, cap=_common_cap(policy, (policy,)))


def decide(
    applied: AppliedPolicy, error: BaseException, reattempts: int, *, reason: str = "exception_policy"
) -> Verdict:
    """Return the verdict of a policy that names an action; ``reattempts`` were granted in a row so far."""
    policy = applied.policy
    if policy.action == "reattempt" and (applied.cap is None or reattempts < applied.cap):
        wait = wait_before(policy.wait, reattempts + 1)
        return Reattempted(wait=wait, reason=reason, error=error, report=policy.report == "always")
    ending = policy.terminal_action if policy.action == "reattempt" else policy.action
    return _ENDINGS[ending or "pause"](error=error, report=policy.report != "never")


def read_handler(handler: object, *, what: str) -> Handler:
    """Check a function ``(workflow, error)``."""
    handler = plain_function(handler)
    if not callable(handler) or isinstance(handler, type):
        raise StepConfigurationError(f"{what} must be a callable that takes (workflow, error), not {handler!r}.")
    objection = objection_to(handler, "workflow", "error")
    if objection:
        raise StepConfigurationError(f"{what}: {handler!r} {objection}.")
    return handler


def read_max_reattempts(value: object, *, what: str) -> int | None:
    """Return the limit of reattempts that a user gave, or the default."""
    return DEFAULT_MAX_REATTEMPTS if value is DEFAULT else read_positive_integer(value, what=what)


def _first_match(policies: Iterable[ExceptionPolicy], error: BaseException) -> ExceptionPolicy | None:
    policies = tuple(policies)
    specific = (policy for policy in policies if not policy.is_blanket and policy.matches(error))
    blanket = (policy for policy in policies if policy.is_blanket)
    return next(specific, None) or next(blanket, None)


def _common_cap(policy: ExceptionPolicy, policies: Iterable[ExceptionPolicy]) -> int | None:
    """The smallest explicit limit counts for all together; only where every one says None is there no limit."""
    members = [each for each in policies if each.may_reattempt]
    explicit = [each.max_reattempts for each in members if each.has_explicit_cap and each.max_reattempts is not None]
    if explicit:
        return min(explicit)
    unlimited = policy.handler is None and all(each.has_explicit_cap for each in members if each.handler is None)
    return None if unlimited else DEFAULT_MAX_REATTEMPTS


def _check_action_or_handler(action: object, handler: object, what: str) -> None:
    if action is None and handler is None:
        raise StepConfigurationError(f"{what} needs an action ({listing(ACTIONS)}), or handler=.")
    if action is not None and handler is not None:
        raise StepConfigurationError(f"{what} has both an action and a handler. Keep one of them.")
    if callable(action):
        raise StepConfigurationError(f"{what}: the action is one of {listing(ACTIONS)}. Pass a callable as handler=.")
    if action is not None:
        read_choice(action, ACTIONS, what=f"{what}: the action")


def _only_for_reattempt(action: object, wait: object, max_reattempts: object, terminal: object, what: str) -> None:
    if action == "reattempt":
        return
    given = {"wait": wait is not None, "max_reattempts": max_reattempts not in (DEFAULT, None)}
    given["terminal_action"] = terminal != "pause"
    misplaced = [name for name, is_given in given.items() if is_given]
    if misplaced:
        remedy = "call self.reattempt(wait=...) in the handler" if action is None else "drop it, or reattempt"
        raise StepConfigurationError(f"{what}: {listing(misplaced)} goes only with the action 'reattempt'; {remedy}.")


def _cap_of(action: object, value: object, what: str) -> int | None:
    return read_max_reattempts(value, what=what) if action == "reattempt" else None


def _readable(matcher: ExceptionMatcher) -> str:
    return matcher.__qualname__ if isinstance(matcher, type) else repr(matcher)


_PAUSE = ExceptionPolicy("pause")


@dataclass(frozen=True)
class MethodHandler:
    """A handler that is a method of the workflow, found by name so that a subclass may override it."""

    method_name: str

    def __call__(self, workflow: object, error: BaseException) -> object:
        return getattr(workflow, self.method_name)(error)


class HandlerDeclaration(Declaration):
    """A method under ``@on_exception``."""

    keyword = "@on_exception"

    def __init__(
        self, site: CallSite, target: object, matching: tuple[object, ...], options: Mapping[str, object]
    ) -> None:
        self.matching = matching
        self.options = options
        super().__init__(site, target)

    def policy(self, method_name: str, where: str) -> ExceptionPolicy:
        """Return the policy that asks the method of this name."""
        refuse_unknown(self.options, ("report",), where=where)
        report: Any = read_choice(self.options.get("report", "always"), REPORTS, what=f"{where}: report")
        matching: Any = read_matching(self.matching, ACTIONS, what=where) if self.matching else None
        return ExceptionPolicy(handler=MethodHandler(method_name), matching=matching, report=report)


# An exception class is a callable as well, so that the overloads overlap; the first that fits is the one meant.
@overload
def on_exception(  # type: ignore[overload-overlap]
    matching: type[BaseException] | str, /, *more: ExceptionMatcher, report: Report = "always"
) -> Callable[[HandlerMethod], HandlerMethod]: ...
@overload
def on_exception(method: HandlerMethod, /) -> HandlerMethod: ...  # type: ignore[overload-overlap]
@overload
def on_exception(
    *matching: ExceptionMatcher, report: Report = "always"
) -> Callable[[HandlerMethod], HandlerMethod]: ...
def on_exception(*matching: Any, **options: object) -> Any:
    """Mark a method ``(self, error)`` that decides, with a verb such as ``self.skip()``, what an error does.

    With exception classes (or dotted names, or predicates) it is asked about these only, bare about every error. It
    applies to the steps without a matching policy of their own. Without a verb in it the workflow is paused.
    """
    if len(matching) == 1 and not options and _is_handler(matching[0]):
        return HandlerDeclaration(call_site(), matching[0], (), {})
    return HandlerDeclaration(call_site(), None, matching, options)


def _is_handler(value: object) -> bool:
    """A predicate takes the error alone; a method takes ``(self, error)``."""
    value = plain_function(value)
    return callable(value) and not isinstance(value, type) and (accepts(value, 2) or not accepts(value, 1))
