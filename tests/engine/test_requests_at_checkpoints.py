"""What operators ask of a resumable step takes effect at its next checkpoint."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from flask_geneva import (
    IterableStep,
    Workflow,
    resumable_step,
    step,
)
from flask_geneva.testing import speedrun
from tests.engine.elsewhere import Ledger, Plan, pressing, run_step
from tests.engine.flows import boom, planned, start
from tests.harness.models import Order, write_down


class RequestedCountFlow(Workflow[Order]):
    """Counts to five and can be stopped; does one thing more."""

    @resumable_step
    def one(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(5)):
            planned(f"at {number}", self)
            write_down(self, str(number))

    @step
    def two(self) -> None:
        write_down(self)


def test_a_resumable_step_stops_for_a_pause_at_its_next_checkpoint(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # OPS-34
    plan["at 2"] = pressing("pause")
    workflow = start(RequestedCountFlow)

    run_step(workflow)

    (execution,) = workflow.execution_history
    assert (execution.state, execution.outcome, execution.cursor_value) == ("completed", "workflow_paused", 3)
    assert (workflow.state, workflow.pending_request, workflow.next_step_name) == ("paused", None, "one")
    assert ledger(workflow) == ["0", "1", "2"]
    plan.clear()
    workflow.resume()
    speedrun(workflow)
    assert ledger(workflow) == ["0", "1", "2", "3", "4", "two"]


def test_a_resumable_step_stops_for_a_cancel_at_its_next_checkpoint(app: Flask, plan: Plan, ledger: Ledger) -> None:
    plan["at 2"] = pressing("cancel")
    workflow = start(RequestedCountFlow)

    run_step(workflow)

    (execution,) = workflow.execution_history
    assert (execution.state, execution.outcome, execution.cursor_value) == ("canceled", "canceled", 3)
    assert (workflow.state, workflow.pending_request) == ("canceled", None)
    assert ledger(workflow) == ["0", "1", "2"]


def test_a_withdrawn_pause_does_not_stop_a_resumable_step(app: Flask, plan: Plan, ledger: Ledger) -> None:
    plan["at 2"] = pressing("pause", "resume")
    workflow = start(RequestedCountFlow)

    run_step(workflow)

    assert workflow.state == "finished"
    assert ledger(workflow) == ["0", "1", "2", "3", "4", "two"]


@pytest.mark.parametrize(("request_for", "state"), [("pause", "paused"), ("cancel", "canceled")])
def test_a_resumable_step_that_fails_before_its_checkpoint_meets_the_request(
    app: Flask, plan: Plan, request_for: str, state: str
) -> None:
    def press_and_fail(running: Any) -> None:
        pressing(request_for)(running)
        boom()

    plan["at 3"] = press_and_fail
    workflow = start(RequestedCountFlow)

    run_step(workflow)

    (execution,) = workflow.execution_history
    assert (execution.state, execution.cursor_value, workflow.state) == ("failed", 3, state)


@pytest.mark.parametrize(("request_for", "state"), [("pause", "paused"), ("cancel", "canceled")])
def test_a_request_at_the_last_item_of_a_resumable_step(
    app: Flask, plan: Plan, ledger: Ledger, request_for: str, state: str
) -> None:
    plan["at 4"] = pressing(request_for)
    workflow = start(RequestedCountFlow)

    run_step(workflow)

    assert workflow.state == state
    assert ledger(workflow) == ["0", "1", "2", "3", "4"]
    if state == "paused":
        plan.clear()
        workflow.resume()
        speedrun(workflow)
        assert ledger(workflow) == ["0", "1", "2", "3", "4", "two"]
