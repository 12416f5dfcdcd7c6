"""Resume of a resumable step goes on from its cursor, whatever ended it."""

from __future__ import annotations

import pytest
from flask import Flask

from flask_geneva import (
    IterableStep,
    Workflow,
    resumable_step,
    step,
)
from flask_geneva.testing import perform_next_step, run_iterations, speedrun
from tests.engine.elsewhere import Ledger, Plan
from tests.engine.flows import Boom, boom, planned, reload, run_job, start, states
from tests.harness.models import Order, db, write_down


class CountingFlow(Workflow[Order]):
    """Counts to five and can be stopped."""

    @resumable_step
    def one(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(5)):
            write_down(self, str(number))
            planned(f"at {number}", self)

    @step
    def two(self) -> None:
        write_down(self)


def test_a_resumable_step_that_was_paused_midway_goes_on_from_its_cursor(
    app: Flask, plan: Plan, ledger: Ledger
) -> None:
    # OPS-34
    plan["at 2"] = lambda workflow: workflow.pause() if not workflow.current_execution.resumed else None
    workflow = start(CountingFlow)
    perform_next_step(workflow)
    assert (workflow.state, states(workflow)[-1]) == ("paused", ("one", "completed", "workflow_paused"))

    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow) == ["0", "1", "2", "2", "3", "4", "two"]
    first, second, _ = workflow.execution_history
    assert second.continues_from_id == first.id


def test_a_resumable_step_that_failed_goes_on_from_its_cursor(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # OPS-35
    plan["at 3"] = boom
    workflow = start(CountingFlow)
    with pytest.raises(Boom):
        perform_next_step(workflow)
    assert ledger(workflow) == ["0", "1", "2"]
    plan.clear()

    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow) == ["0", "1", "2", "3", "4", "two"]
    assert states(workflow)[:2] == [("one", "failed", "failed"), ("one", "completed", "success")]


def test_a_resumable_step_paused_between_two_chunks_keeps_its_cursor(app: Flask, ledger: Ledger) -> None:
    # OPS-36, B-26
    workflow = start(CountingFlow)
    run_iterations(workflow, 2)
    workflow.pause()
    db.session.commit()
    run_job(workflow.execution_history[-1].id)
    assert states(reload(workflow)) == [("one", "completed", "continued"), ("one", "canceled", "canceled")]

    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow) == ["0", "1", "2", "3", "4", "two"]


def test_a_resumable_step_that_was_paused_before_its_first_checkpoint_begins(app: Flask, ledger: Ledger) -> None:
    workflow = start(CountingFlow)
    workflow.pause()
    db.session.commit()
    run_job(workflow.execution_history[-1].id)

    reload(workflow).resume()
    speedrun(workflow)

    assert ledger(workflow) == ["0", "1", "2", "3", "4", "two"]
    assert workflow.execution_history[1].continues_from_id is None


def test_what_stands_comes_before_what_stopped_midway(app: Flask) -> None:
    # OPS-36
    workflow = start(CountingFlow)
    run_iterations(workflow, 2)
    workflow.pause()
    standing = workflow.execution_history[-1].id

    workflow.resume()

    assert states(workflow) == [("one", "completed", "continued"), ("one", "scheduled", None)]
    assert workflow.execution_history[-1].id == standing
