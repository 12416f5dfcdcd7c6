"""The helpers that drive a workflow inside a test, and those that look at it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from flask_geneva import InvalidStateError, IterableStep, StepNotDefinedError, Workflow, resumable_step, step
from flask_geneva.testing import (
    assert_cursor,
    assert_iterations,
    assert_step_executed,
    assert_workflow_state,
    perform_next_step,
    perform_step,
    run_iterations,
    speedrun,
)
from tests.engine.elsewhere import Ledger
from tests.engine.flows import start, states
from tests.harness.models import Order, write_down


class DrivenFlow(Workflow[Order]):
    """Three steps, of which one is months away; the first does as its order says."""

    @step
    def one(self) -> None:
        write_down(self)
        if self.hero.state == "pausing":
            self.pause()
        if self.hero.state == "again":
            self.reattempt()

    @step(wait=timedelta(days=90))
    def two(self) -> None:
        write_down(self)

    @step
    def three(self) -> None:
        write_down(self)


class DrivenCountFlow(Workflow[Order]):
    """Counts to six, no more than two at a time, and does one thing more."""

    @resumable_step(max_iterations=2)
    def count(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(6)):
            write_down(self, str(number))
            if self.hero.state == "suspending" and not it.resumed and number == 3:
                it.set(4)
                it.suspend(wait=timedelta(days=1))

    @step
    def after(self) -> None:
        write_down(self)


def test_speedrun_goes_to_the_end_and_ignores_waits(app: Flask, ledger: Ledger) -> None:
    # TST-01
    workflow = start(DrivenFlow)

    speedrun(workflow)

    assert workflow.state == "finished"
    assert states(workflow) == [(name, "completed", "success") for name in ("one", "two", "three")]
    assert ledger(workflow) == ["one", "two", "three"]


def test_speedrun_stops_where_the_workflow_is_paused(app: Flask) -> None:
    # TST-02
    workflow = start(DrivenFlow, state="pausing")

    speedrun(workflow)

    assert workflow.state == "paused"
    assert states(workflow) == [("one", "canceled", "canceled")]


@pytest.mark.parametrize(("options", "number"), [({}, 100), ({"max_steps": 7}, 7)])
def test_speedrun_does_not_run_for_ever(app: Flask, options: dict[str, Any], number: int) -> None:
    # TST-03
    workflow = start(DrivenFlow, state="again")

    with pytest.raises(AssertionError, match=f"has not ended after {number} step executions"):
        speedrun(workflow, **options)

    assert len(workflow.execution_history) == number + 1


def test_speedrun_runs_a_resumable_step_without_its_limits(app: Flask, ledger: Ledger) -> None:
    # TST-04
    workflow = start(DrivenCountFlow)

    speedrun(workflow)

    assert states(workflow) == [("count", "completed", "success"), ("after", "completed", "success")]
    assert ledger(workflow) == [*map(str, range(6)), "after"]


def test_the_next_step_is_performed_and_returned(app: Flask, ledger: Ledger) -> None:
    # TST-05
    workflow = start(DrivenFlow)

    performed = [perform_next_step(workflow) for _ in range(4)]

    assert [each and each.step_name for each in performed] == ["one", "two", "three", None]
    assert ledger(workflow) == ["one", "two", "three"]


def test_a_named_step_is_performed_out_of_order_and_again(app: Flask, ledger: Ledger) -> None:
    # TST-06
    workflow = start(DrivenFlow)

    perform_step(workflow, "two")
    perform_step(workflow, "two")
    perform_step(workflow)

    assert ledger(workflow) == ["two", "two", "three"]
    assert states(workflow)[0] == ("one", "canceled", "canceled")


def test_a_step_that_there_is_not_is_named_with_those_that_there_are(app: Flask) -> None:
    # TST-07
    workflow = start(DrivenFlow)

    with pytest.raises(StepNotDefinedError, match=r"'four' is not defined.*one, two, three"):
        perform_step(workflow, "four")

    assert states(workflow) == [("one", "scheduled", None)]


def test_an_executed_step_is_asserted_in_any_state(app: Flask) -> None:
    # TST-08
    workflow = start(DrivenFlow)
    perform_next_step(workflow)

    assert assert_step_executed(workflow, "one").outcome == "success"
    assert assert_step_executed(workflow, "two", state="scheduled").step_name == "two"
    with pytest.raises(AssertionError, match=r"no completed execution of step 'two'.*one: completed, two: scheduled"):
        assert_step_executed(workflow, "two")


def test_the_state_of_a_workflow_is_asserted(app: Flask) -> None:
    # TST-09
    workflow = start(DrivenFlow)

    assert_workflow_state(workflow, "ready")
    with pytest.raises(AssertionError, match="is ready, not paused"):
        assert_workflow_state(workflow, "paused")


def test_a_suspended_step_is_followed_across_its_executions(app: Flask, ledger: Ledger) -> None:
    # TST-10: there is no helper of its own for that; each call runs one execution, and speedrun all of them.
    workflow = start(DrivenCountFlow, state="suspending")

    performed = perform_next_step(workflow)
    assert performed is not None
    assert (performed.outcome, ledger(workflow)) == ("continued", ["0", "1", "2", "3"])
    perform_next_step(workflow)

    assert ledger(workflow) == [*map(str, range(6))]
    assert states(workflow)[-1] == ("after", "scheduled", None)


def test_so_many_iterations_are_run_and_no_more(app: Flask, ledger: Ledger) -> None:
    # TST-11
    workflow = start(DrivenCountFlow)

    performed = run_iterations(workflow, 5)

    assert performed is not None
    assert (performed.outcome, ledger(workflow)) == ("continued", [*map(str, range(5))])


def test_the_successor_is_there_after_an_interruption(app: Flask) -> None:
    # TST-13: by the attribute, which tells more than an assertion of its own would.
    workflow = start(DrivenCountFlow)

    performed = run_iterations(workflow, 3)

    assert performed is not None
    assert performed.successor is not None
    assert (performed.successor.state, performed.successor.cursor_value) == ("scheduled", 3)


def test_cursor_and_iterations_are_those_of_the_chain_also_when_it_is_over(app: Flask) -> None:
    # TST-12
    workflow = start(DrivenCountFlow)
    run_iterations(workflow, 2)
    assert_cursor(workflow, 2)
    assert_iterations(workflow, 2)

    perform_next_step(workflow)

    assert workflow.next_step_name == "after"
    assert_cursor(workflow, 6)
    assert_iterations(workflow, 4)


@pytest.mark.parametrize("count", [0, -1, True, "2", None])
def test_a_number_of_iterations_that_is_none_is_refused(app: Flask, ledger: Ledger, count: Any) -> None:
    workflow = start(DrivenCountFlow)

    with pytest.raises(ValueError, match="must be a positive integer"):
        run_iterations(workflow, count)

    assert ledger(workflow) == []


def test_iterations_of_a_plain_step_are_refused(app: Flask, ledger: Ledger) -> None:
    workflow = start(DrivenFlow)

    with pytest.raises(InvalidStateError, match=r"step 'one' of .* is not resumable"):
        run_iterations(workflow, 1)

    assert ledger(workflow) == []
    for check in (assert_cursor, assert_iterations):
        with pytest.raises(AssertionError, match="no execution of a resumable step"):
            check(workflow, 0)


def test_nothing_about_columns_is_remembered_between_tests(app: Flask) -> None:
    # TST-18: no column is optional here, so that there is nothing to be reset.
    workflow = start(DrivenCountFlow)

    run_iterations(workflow, 1)

    assert_cursor(workflow, 1)
