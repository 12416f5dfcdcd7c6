"""Workflows that wait for signals, and how a test brings them to where they wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flask_geneva import IterableStep, StepExecution, Workflow, cancel_if, removed_step, resumable_step, step
from flask_geneva.testing import WaitingForSignal, speedrun
from tests.engine.flows import boom, start
from tests.harness.models import Order, db, write_down

Ledger = Callable[[Any], list[str]]


class PaidFlow(Workflow[Order]):
    """Reserve, wait for the money, ship; the state of its hero says how the middle step ends."""

    @cancel_if
    def is_withdrawn(self) -> bool:
        return self.hero.withdrawn

    @step
    def reserve(self) -> None:
        write_down(self)

    @step(wait_for="paid", skip_if=lambda workflow: workflow.hero.reviewed)
    def capture(self) -> None:
        write_down(self, f"captured {self.received_signal.payload}")
        end_as_told(self)

    @step
    def ship(self) -> None:
        write_down(self, f"shipped with {self.received_signal}")


class TwicePaidFlow(Workflow[Order]):
    """Two steps that wait for signals of one name."""

    @step(wait_for="paid")
    def deposit(self) -> None:
        write_down(self, f"deposit {self.received_signal.payload}")
        end_as_told(self)

    @step(wait_for="paid")
    def balance(self) -> None:
        write_down(self, f"balance {self.received_signal.payload}")
        end_as_told(self)


class ChainedFlow(Workflow[Order]):
    """A resumable step that needs a signal once."""

    @resumable_step(wait_for="paid", max_iterations=2)
    def chain(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(5)):
            write_down(self, f"{number} {self.received_signal.payload}")
            end_as_told(self)


class SkippingFlow(Workflow[Order]):
    """Errors are skipped."""

    @step(wait_for="paid", on_exception="skip")
    def capture(self) -> None:
        end_as_told(self)


class RetryingFlow(Workflow[Order]):
    """Errors are tried again."""

    @step(wait_for="paid", on_exception="reattempt", max_reattempts=3)
    def capture(self) -> None:
        write_down(self, f"captured {self.received_signal.payload}")
        end_as_told(self)


class HookedFlow(Workflow[Order]):
    """Each hook writes down which signal it sees."""

    @step(wait_for="paid")
    def capture(self) -> None:
        write_down(self, f"step {self.received_signal.payload}")

    def before_step_execution(self, execution: StepExecution) -> None:
        write_down(self, f"before {self.received_signal.payload}")

    def after_step_execution(self, execution: StepExecution) -> None:
        write_down(self, f"after {self.received_signal.payload}")


class LateFlow(Workflow[Order]):
    """Waits for time, and then for a signal."""

    @step(wait=timedelta(days=2), wait_for="paid")
    def capture(self) -> None:
        write_down(self)


class BuriedFlow(Workflow[Order]):
    """A step that was buried by a deploy."""

    capture = removed_step()


def end_as_told(workflow: Any) -> None:
    """End the step once as its hero's state says; the state is gone then, unless the step's writes are."""
    told = workflow.hero.state
    if told == "fail":
        boom()
    if told in ("skip", "finish", "pause", "cancel", "reattempt"):
        workflow.hero.state = "told"
        getattr(workflow, told)()


def parked(workflow_class: type[Workflow[Any]] = PaidFlow, **columns: Any) -> Workflow[Any]:
    """Create a workflow and bring it to its step that waits."""
    workflow = start(workflow_class, **columns)
    park(workflow)
    return workflow


def park(workflow: Workflow[Any]) -> None:
    with pytest.raises(WaitingForSignal):
        speedrun(workflow)


def change_hero(workflow: Workflow[Any], **columns: Any) -> None:
    for name, value in columns.items():
        setattr(workflow.hero, name, value)
    db.session.commit()
