"""Run a workflow's whole month in milliseconds: drive it step by step, and assert where it stands."""

from flask_geneva.testing.assertions import (
    assert_cursor,
    assert_iterations,
    assert_signal_state,
    assert_step_executed,
    assert_waiting_for_signal,
    assert_workflow_state,
)
from flask_geneva.testing.driving import (
    WaitingForSignal,
    expire_wait,
    perform_next_step,
    perform_step,
    run_iterations,
    speedrun,
)

__all__ = [
    "WaitingForSignal",
    "assert_cursor",
    "assert_iterations",
    "assert_signal_state",
    "assert_step_executed",
    "assert_waiting_for_signal",
    "assert_workflow_state",
    "expire_wait",
    "perform_next_step",
    "perform_step",
    "run_iterations",
    "speedrun",
]
