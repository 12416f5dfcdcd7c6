"""The helpers of ``flask_geneva.testing`` where a step waits: they do not spin, and say what is awaited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from flask_geneva import Workflow
from flask_geneva.testing import (
    WaitingForSignal,
    assert_signal_state,
    assert_waiting_for_signal,
    perform_next_step,
    perform_step,
    run_iterations,
    speedrun,
)
from tests.engine.flows import start
from tests.harness.models import db
from tests.signals.flows import ChainedFlow, PaidFlow, parked
from tests.signals.test_matchers import MixedFlow

Helper = Callable[[Workflow[Any]], Any]


def test_waiting_is_asserted_with_and_without_a_name(app: Flask) -> None:
    # TST-14
    workflow = parked()

    assert assert_waiting_for_signal(workflow).step_name == "capture"
    assert assert_waiting_for_signal(workflow, "paid").state == "waiting"
    with pytest.raises(AssertionError, match="parked on 'capture' for signal 'paid', not for 'other'"):
        assert_waiting_for_signal(workflow, "other")


def test_a_workflow_that_is_not_parked_does_not_wait(app: Flask) -> None:
    # TST-14
    workflow = start(PaidFlow)

    with pytest.raises(AssertionError, match="waits for no signal"):
        assert_waiting_for_signal(workflow)


def test_the_state_of_the_newest_signal_of_a_name_is_asserted(app: Flask) -> None:
    # TST-15
    workflow = parked()
    with pytest.raises(AssertionError, match="has no signal 'paid'"):
        assert_signal_state(workflow, "paid", "pending")
    workflow.signal("paid")
    newest = workflow.signal("paid")

    assert assert_signal_state(workflow, "paid", "pending") is newest
    with pytest.raises(AssertionError, match="is pending, not claimed"):
        assert_signal_state(workflow, "paid", "claimed")


@pytest.mark.parametrize(
    ("name", "helper"),
    [
        ("speedrun", speedrun),
        ("perform_next_step", perform_next_step),
        ("perform_step", perform_step),
        ("run_iterations", lambda workflow: run_iterations(workflow, 2)),
    ],
)
def test_a_helper_on_a_parked_workflow_raises_at_once(app: Flask, name: str, helper: Helper) -> None:
    # TST-16
    workflow = parked(ChainedFlow)

    with pytest.raises(WaitingForSignal) as raised:
        helper(workflow)

    told = str(raised.value)
    assert told.startswith(f"{name}: step 'chain' of {workflow!r} is parked until signal 'paid' arrives")


def test_the_error_names_all_that_is_awaited(app: Flask) -> None:
    # TST-16
    workflow = parked(MixedFlow)

    with pytest.raises(WaitingForSignal, match="any of the signals 'refunded', 'paid' or a signal accepted by Settled"):
        perform_next_step(workflow)


def test_to_park_is_no_error(app: Flask) -> None:
    # TST-17
    workflow = start(PaidFlow)
    perform_next_step(workflow)

    execution = perform_next_step(workflow)

    assert execution is not None
    assert (execution.step_name, execution.state) == ("capture", "waiting")


def test_the_example_of_the_manual_works(app: Flask) -> None:
    workflow = start(PaidFlow)
    perform_next_step(workflow)
    perform_next_step(workflow)
    assert_waiting_for_signal(workflow, "paid")

    workflow.signal("paid", {"amount_cents": 12_500})
    speedrun(workflow)

    assert_signal_state(workflow, "paid", "consumed")
    assert workflow.state == "finished"


def test_a_signal_that_was_not_committed_is_committed_by_the_helper(app: Flask) -> None:
    workflow = parked()
    workflow.signal("paid")

    perform_next_step(workflow)
    db.session.rollback()

    assert_signal_state(workflow, "paid", "consumed")
