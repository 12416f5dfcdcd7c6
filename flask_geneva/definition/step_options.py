"""Checking the options of one step; every mistake names the class, the step and the place of its declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from types import MappingProxyType
from typing import Any

from flask_geneva.definition.conditions import read_condition
from flask_geneva.definition.declarations import plain_function
from flask_geneva.definition.durations import read_duration, read_positive_duration
from flask_geneva.definition.exception_policies import (
    ACTIONS,
    TERMINAL_ACTIONS,
    ExceptionPolicy,
    read_handler,
    read_max_reattempts,
)
from flask_geneva.definition.job_options import read_job_options
from flask_geneva.definition.options import (
    UNSET,
    listing,
    read_choice,
    read_positive_integer,
    refuse_unknown,
    was_given,
)
from flask_geneva.definition.signal_matchers import looks_like_signal, read_wait_for
from flask_geneva.definition.steps import (
    NO_JOB_OPTIONS,
    ResumableStepOptions,
    StepDeclaration,
    StepDefinition,
    StepOptions,
)
from flask_geneva.errors import StepConfigurationError

_OPTIONS = tuple(StepOptions.__annotations__)
_RESUMABLE_OPTIONS = tuple(ResumableStepOptions.__annotations__)
_DEADLINE_ACTIONS = ("pause", "skip", "cancel", "run")


def define_step(declaration: StepDeclaration, name: str, method_name: str, where: str) -> StepDefinition:
    """Return the step that a declaration stands for."""
    _refuse_unknown(declaration, where)
    given = _Options(declaration.options, where)
    return StepDefinition(
        name=name,
        method_name=method_name,
        source=declaration.source,
        wait=given.wait(),
        wait_for=read_wait_for(given.get("wait_for", None), where=where),
        deadline=given.deadline(),
        on_deadline=given.on_deadline(),
        condition=read_condition(skip_if=given.get("skip_if"), run_if=given.get("run_if"), where=where),
        exception_policies=given.exception_policies(),
        before=given.anchor("before"),
        after=given.anchor("after"),
        job_options=given.job_options(),
        resumable=declaration.resumable,
        max_iterations=read_positive_integer(given.get("max_iterations", None), what=f"{where}: max_iterations"),
        max_runtime=read_positive_duration(given.get("max_runtime", None), what=f"{where}: max_runtime"),
    )


@dataclass(frozen=True)
class _Options:
    given: Mapping[str, object]
    where: str

    def get(self, name: str, default: object = UNSET) -> Any:
        return self.given.get(name, default)

    def has(self, name: str) -> bool:
        return was_given(self.get(name))

    def mistake(self, text: str) -> StepConfigurationError:
        return StepConfigurationError(f"{self.where}: {text}")

    def wait(self) -> timedelta | None:
        value = self.get("wait", None)
        if looks_like_signal(value):
            raise self.mistake(
                f"wait={value!r} is no duration; wait takes a timedelta or a number of seconds. "
                f"To wait for a signal use wait_for={value!r}."
            )
        if isinstance(value, date | datetime | time):
            raise self.mistake(
                f"wait={value!r} is a point in time; wait takes how long, as a timedelta or a number of seconds. "
                f"To wait for an event use wait_for=."
            )
        return read_duration(value, what=f"{self.where}: invalid wait; it")

    def deadline(self) -> timedelta | None:
        if self.has("deadline") and not self.has("wait_for"):
            raise self.mistake("deadline limits how long the step waits for a signal. Add wait_for=, or use wait=.")
        return read_duration(self.get("deadline", None), what=f"{self.where}: deadline")

    def on_deadline(self) -> str:
        if not self.has("on_deadline"):
            return "pause"
        if not self.has("deadline"):
            raise self.mistake("on_deadline says what happens when the deadline passes. Add deadline=.")
        return read_choice(self.get("on_deadline"), _DEADLINE_ACTIONS, what=f"{self.where}: on_deadline")

    def anchor(self, option: str) -> str | None:
        value = self.get(option, None)
        if value is None or isinstance(value, str):
            return value
        name = getattr(plain_function(value), "__name__", "name")
        raise self.mistake(f"{option} takes the name of a step, for example {option}='{name}', not {value!r}.")

    def job_options(self) -> Mapping[str, Any]:
        options = read_job_options(self.get("job_options", None), where=self.where)
        return MappingProxyType(options) if options else NO_JOB_OPTIONS

    def exception_policies(self) -> tuple[ExceptionPolicy, ...]:
        value = self.get("on_exception", None)
        if value == "reattempt":
            return (self._reattempt_policy(),)
        self._refuse_reattempt_options(value)
        if value is None:
            return ()
        if isinstance(value, list | tuple):
            return tuple(self._member(each) for each in value)
        return (self._single_policy(value),)

    def _reattempt_policy(self) -> ExceptionPolicy:
        terminal: Any = self.get("terminal_action", "pause")
        cap = self.get("max_reattempts")
        read_choice(terminal, TERMINAL_ACTIONS, what=f"{self.where}: terminal_action")
        read_max_reattempts(cap, what=f"{self.where}: max_reattempts")
        return ExceptionPolicy("reattempt", max_reattempts=cap, terminal_action=terminal)

    def _refuse_reattempt_options(self, on_exception: object) -> None:
        misplaced = [name for name in ("max_reattempts", "terminal_action") if self.has(name)]
        if not misplaced:
            return
        remedy = "Set it on the ExceptionPolicy." if was_given(on_exception) else "Add on_exception='reattempt'."
        if isinstance(on_exception, str):
            remedy = "Drop it, or use on_exception='reattempt'."
        raise self.mistake(f"{listing(misplaced)} goes only with on_exception='reattempt'. {remedy}")

    def _single_policy(self, value: Any) -> ExceptionPolicy:
        if isinstance(value, ExceptionPolicy):
            return value
        if isinstance(value, str) and value in ACTIONS:
            action: Any = value
            return ExceptionPolicy(action)
        if callable(plain_function(value)) and not isinstance(value, type):
            return ExceptionPolicy(handler=read_handler(value, what=f"{self.where}: on_exception"))
        raise self.mistake(
            f"invalid on_exception: it takes one of {listing(ACTIONS)}, an ExceptionPolicy, a callable that takes "
            f"(workflow, error), or a list of ExceptionPolicy objects, not {value!r}.{_hint_for(value)}"
        )

    def _member(self, value: object) -> ExceptionPolicy:
        if isinstance(value, ExceptionPolicy):
            return value
        raise self.mistake(f"every element of a list in on_exception must be an ExceptionPolicy, not {value!r}.")


def _hint_for(value: object) -> str:
    if isinstance(value, type) and issubclass(value, BaseException):
        return f" To act on this error only use ExceptionPolicy('pause', matching={value.__name__}) or the like."
    return ""


def _refuse_unknown(declaration: StepDeclaration, where: str) -> None:
    misplaced = {"max_iterations", "max_runtime"} & set(declaration.options)
    if misplaced and not declaration.resumable:
        raise StepConfigurationError(f"{where}: {listing(sorted(misplaced))} goes only with @resumable_step.")
    refuse_unknown(declaration.options, _RESUMABLE_OPTIONS if declaration.resumable else _OPTIONS, where=where)
