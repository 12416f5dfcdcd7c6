"""``@step``, ``@resumable_step`` and ``removed_step()``, and what they become: a :class:`StepDefinition`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack, overload

from flask_geneva.definition.conditions import Condition, Rule
from flask_geneva.definition.declarations import CallSite, Declaration, as_method, call_site
from flask_geneva.definition.durations import Duration
from flask_geneva.definition.exception_policies import Action, ExceptionPolicy, Handler, TerminalAction
from flask_geneva.definition.signal_matchers import Matcher, WaitFor

OnDeadline: TypeAlias = Literal["pause", "skip", "cancel", "run"]
StepMethod = TypeVar("StepMethod", bound=Callable[[Any], object])
ResumableStepMethod = TypeVar("ResumableStepMethod", bound=Callable[[Any, Any], object])

NO_JOB_OPTIONS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class StepDefinition:
    """One step of a workflow class; ``source`` is the ``path:line`` of its declaration.

    The step is skipped when ``condition`` holds. A removed step has a name, a place and a source only.
    ``numbered_in`` is the list in whose order the step has its number, where it was given no name.
    """

    name: str
    method_name: str
    source: str
    wait: timedelta | None = None
    wait_for: tuple[Matcher, ...] = ()
    deadline: timedelta | None = None
    on_deadline: str = "pause"
    condition: Condition | None = None
    exception_policies: tuple[ExceptionPolicy, ...] = ()
    before: str | None = None
    after: str | None = None
    job_options: Mapping[str, Any] = field(default_factory=lambda: NO_JOB_OPTIONS, hash=False)
    resumable: bool = False
    max_iterations: int | None = None
    max_runtime: timedelta | None = None
    removed: bool = False
    numbered_in: str | None = None

    @property
    def runnable(self) -> bool:
        """Whether the step still runs, which is to say that it was not removed."""
        return not self.removed

    @property
    def waits_for_signal(self) -> bool:
        """Whether the step needs a signal before it runs."""
        return bool(self.wait_for)


class StepOptions(TypedDict, total=False):
    """The options of :func:`step`."""

    name: str
    wait: Duration | None
    wait_for: WaitFor | None
    deadline: Duration | None
    on_deadline: OnDeadline
    skip_if: Rule | None
    run_if: Rule | None
    on_exception: Action | ExceptionPolicy | Handler | Sequence[ExceptionPolicy] | None
    max_reattempts: int | None
    terminal_action: TerminalAction
    before: str | None
    after: str | None
    job_options: Mapping[str, Any] | None


class ResumableStepOptions(StepOptions, total=False):
    """The options of :func:`resumable_step`."""

    max_iterations: int | None
    max_runtime: Duration | None


class StepDeclaration(Declaration):
    """A step in a class body: a decorated method, a callable, or the name of a method."""

    def __init__(self, site: CallSite, target: object, options: Mapping[str, object], *, resumable: bool) -> None:
        self.options = options
        self.resumable = resumable
        self.keyword = "@resumable_step" if resumable else "@step"
        super().__init__(site, target)

    @property
    def named(self) -> str | None:
        return self.target if isinstance(self.target, str) else super().named

    def function_of(self, target: Any) -> Callable[..., Any] | None:
        function = super().function_of(target)
        return None if function is None or isinstance(function, type | Declaration) else as_method(function)

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        inherited = getattr(super(owner, owner), name, None)
        if self.target == name and callable(inherited):
            # charge = step("charge") must not hide the inherited method that it names.
            setattr(owner, name, inherited)


class RemovedStepDeclaration(Declaration):
    """A gravestone in a class body."""

    keyword = "removed_step()"

    def __init__(self, site: CallSite, arguments: Sequence[object], options: Mapping[str, object]) -> None:
        self.arguments = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in options.items())]
        super().__init__(site)


# With a callable alone it is a decorator, with options a declaration: the overloads overlap on purpose.
@overload
def step(target: StepMethod, /) -> StepMethod: ...  # type: ignore[overload-overlap]
@overload
def step(target: str | Callable[[Any], object], /, **options: Unpack[StepOptions]) -> StepDeclaration: ...
@overload
def step(**options: Unpack[StepOptions]) -> Callable[[StepMethod], StepMethod]: ...
def step(target: object = None, /, **options: object) -> Any:
    """Declare a step: above a method, or in the class body with the name of a method or a callable.

    Steps run in the order of the class body. ``wait`` delays the step, ``wait_for`` parks it until a signal arrives,
    ``skip_if`` and ``run_if`` are asked before it runs, ``on_exception`` says what an error in it does.
    """
    return StepDeclaration(call_site(), target, options, resumable=False)


@overload
def resumable_step(target: ResumableStepMethod, /) -> ResumableStepMethod: ...  # type: ignore[overload-overlap]
@overload
def resumable_step(
    target: str | Callable[[Any, Any], object], /, **options: Unpack[ResumableStepOptions]
) -> StepDeclaration: ...
@overload
def resumable_step(
    **options: Unpack[ResumableStepOptions],
) -> Callable[[ResumableStepMethod], ResumableStepMethod]: ...
def resumable_step(target: object = None, /, **options: object) -> Any:
    """Declare a step ``(self, it)`` that checkpoints its progress and goes on from there after a stop.

    It takes the options of :func:`step`, and ``max_iterations`` and ``max_runtime``: after so many checkpoints, or
    so long, the step stops at a checkpoint and a new job goes on.
    """
    return StepDeclaration(call_site(), target, options, resumable=True)


def removed_step(*arguments: object, **options: object) -> Any:
    """Keep the place of a step that was deleted: ``name = removed_step()``, where the step stood.

    Workflows that stand at it go on with the next step. It takes no arguments; in a subclass it removes the parent's
    step of that name.
    """
    return RemovedStepDeclaration(call_site(), arguments, options)
