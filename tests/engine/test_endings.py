"""The table of endings: what each way out of a step does to the execution, the workflow and what follows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from flask_geneva import IterableStep, Workflow, resumable_step, step
from flask_geneva.testing import perform_next_step
from tests.harness.models import Order, db, write_down


class Boom(Exception):
    """What goes wrong in these tests."""


class EndingsFlow(Workflow[Order]):
    """Its first step ends as its hero's state says."""

    @step
    def one(self) -> None:
        write_down(self)
        END[self.hero.state](self)

    @step(wait=timedelta(hours=1))
    def two(self) -> None:
        write_down(self)


def fail(workflow: Any) -> None:
    raise Boom(workflow.hero.state)


class PausePolicyFlow(EndingsFlow):
    """Fails under an explicit pause."""

    @step(on_exception="pause", before="one")
    def zero(self) -> None:
        write_down(self)
        fail(self)


class CancelPolicyFlow(EndingsFlow):
    """Fails under cancel."""

    @step(on_exception="cancel", before="one")
    def zero(self) -> None:
        write_down(self)
        fail(self)


class SkipPolicyFlow(EndingsFlow):
    """Fails under skip."""

    @step(on_exception="skip", before="one")
    def zero(self) -> None:
        write_down(self)
        fail(self)


class ReattemptPolicyFlow(EndingsFlow):
    """Fails under reattempt."""

    @step(on_exception="reattempt", before="one")
    def zero(self) -> None:
        write_down(self)
        fail(self)


class PausingResumableFlow(Workflow[Order]):
    """Pauses in the middle of an iteration."""

    @resumable_step
    def one(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(4)):
            write_down(self, f"item {number}")
            if number == 2 and not it.resumed:
                self.pause()


END: dict[str, Callable[[Any], object]] = {
    "return": lambda workflow: None,
    "skip": lambda workflow: workflow.skip(),
    "cancel": lambda workflow: workflow.cancel(),
    "pause": lambda workflow: workflow.pause(),
    "finish": lambda workflow: workflow.finish(),
    "reattempt": lambda workflow: workflow.reattempt(wait=60),
    "error": fail,
}


def performed(workflow_class: type[Workflow[Any]], ending: str) -> Workflow[Any]:
    """Run the first step of a workflow whose step ends so."""
    order = Order(state=ending)
    db.session.add(order)
    workflow = workflow_class.create(hero=order)
    perform_next_step(workflow, raise_errors=False)
    return workflow


@pytest.mark.parametrize(
    ("ending", "state", "outcome", "workflow_state", "follows", "is_kept"),
    [
        # EXE-03, FLW-12, FLW-04, FLW-05, FLW-14, FLW-08, EXC-01
        ("return", "completed", "success", "ready", "two", True),
        ("skip", "skipped", "skipped", "ready", "two", True),
        ("cancel", "canceled", "canceled", "canceled", None, True),
        ("pause", "canceled", "canceled", "paused", None, True),
        ("finish", "completed", "success", "finished", None, True),
        ("reattempt", "completed", "reattempted", "ready", "one", True),
        ("error", "failed", "failed", "paused", None, False),
    ],
)
def test_an_ending(
    app: Flask,
    ledger: Callable[[Any], list[str]],
    ending: str,
    state: str,
    outcome: str,
    workflow_state: str,
    follows: str | None,
    is_kept: bool,
) -> None:
    workflow = performed(EndingsFlow, ending)

    first, *rest = workflow.execution_history
    assert (first.state, first.outcome, workflow.state) == (state, outcome, workflow_state)
    assert [each.step_name for each in rest] == ([follows] if follows else [])
    assert ledger(workflow) == (["one"] if is_kept else [])
    assert first.started_at is not None
    assert first.finished_at is not None
    assert workflow.started_at is not None
    assert workflow.current_step_name is None
    assert (workflow.transitioned_at is None) == (workflow_state == "ready")


@pytest.mark.parametrize(
    ("workflow_class", "state", "outcome", "workflow_state", "follows"),
    [
        # EXC-02, EXC-04, EXC-03, EXC-05
        (PausePolicyFlow, "failed", "failed", "paused", None),
        (CancelPolicyFlow, "failed", "canceled", "canceled", None),
        (SkipPolicyFlow, "skipped", "skipped", "ready", "one"),
        (ReattemptPolicyFlow, "completed", "reattempted", "ready", "zero"),
    ],
)
def test_an_error_under_each_policy(
    app: Flask,
    ledger: Callable[[Any], list[str]],
    workflow_class: type[Workflow[Any]],
    state: str,
    outcome: str,
    workflow_state: str,
    follows: str | None,
) -> None:
    workflow = performed(workflow_class, "error")

    first, *rest = workflow.execution_history
    assert (first.state, first.outcome, workflow.state) == (state, outcome, workflow_state)
    assert [each.step_name for each in rest] == ([follows] if follows else [])
    assert ledger(workflow) == []
    assert (first.error_class_name == "Boom") == (state == "failed")
    assert first.details["exception"]["class"] == "Boom"


def test_a_finished_workflow_names_no_step(app: Flask) -> None:
    # SCH-11, FLW-14
    workflow = performed(EndingsFlow, "finish")

    assert (workflow.next_step_name, workflow.current_step_name) == (None, None)


def test_a_paused_resumable_step_goes_on_from_its_cursor(app: Flask, ledger: Callable[[Any], list[str]]) -> None:
    # RES-46, RES-47
    workflow = performed(PausingResumableFlow, "placed")
    first = workflow.execution_history[0]
    assert (first.state, first.outcome, first.cursor_value) == ("completed", "workflow_paused", 2)

    workflow.resume()
    perform_next_step(workflow)

    assert workflow.state == "finished"
    assert ledger(workflow) == ["item 0", "item 1", "item 2", "item 2", "item 3"]
    assert workflow.execution_history[1].continues_from_id == first.id
