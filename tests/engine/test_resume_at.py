"""Resume at a step: from there, at once and from its beginning, whatever stands."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from flask_geneva import (
    IterableStep,
    StepNotDefinedError,
    Workflow,
    WorkflowNotDefinedError,
    removed_step,
    resumable_step,
    step,
)
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.records.tables import signals, step_executions, workflows
from flask_geneva.testing import (
    assert_signal_state,
    assert_waiting_for_signal,
    perform_next_step,
    run_iterations,
    speedrun,
)
from tests.engine.elsewhere import Ledger, Plan, nothing_written
from tests.engine.flows import boom, planned, reload, start, states
from tests.harness.models import Order, db, write_down


class DirectedFlow(Workflow[Order]):
    """Three steps, the middle one tomorrow, and a gravestone."""

    @step
    def one(self) -> None:
        write_down(self)

    buried = removed_step()

    @step(wait=timedelta(days=1))
    def two(self) -> None:
        write_down(self)
        planned("two", self)

    @step
    def three(self) -> None:
        write_down(self)


class SignalledTwiceFlow(Workflow[Order]):
    """Two steps wait for signals of one name."""

    @step(wait_for="go")
    def one(self) -> None:
        write_down(self, f"one {self.received_signal.payload}")
        planned("one", self)

    @step(wait_for="go")
    def two(self) -> None:
        write_down(self, f"two {self.received_signal.payload}")


class RestartedFlow(Workflow[Order]):
    """Counts to three and can be stopped."""

    @resumable_step
    def one(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(3)):
            write_down(self, str(number))


def paused_at_two() -> Workflow[Any]:
    workflow = start(DirectedFlow)
    perform_next_step(workflow)
    workflow.pause()
    db.session.commit()
    return workflow


@pytest.mark.parametrize("target", ["one", "two", "three"])
def test_it_goes_to_the_named_step_at_once_and_on_from_there(
    jobs: list[JobRequest], ledger: Ledger, target: str
) -> None:
    # OPS-40, OPS-41, OPS-42, OPS-46, OPS-47, OPS-48
    workflow = paused_at_two()
    del jobs[:]

    resumed = workflow.resume_at(target)
    assert (resumed.step_name, resumed.state) == (target, "scheduled")
    db.session.commit()

    assert states(workflow)[1:] == [("two", "canceled", "canceled"), (target, "scheduled", None)]
    stray, fresh = workflow.execution_history[1:]
    assert resumed is fresh
    assert stray.finished_at == stray.canceled_at is not None
    assert fresh.scheduled_for - fresh.created_at < timedelta(seconds=1)
    assert (workflow.state, workflow.next_step_name, workflow.current_step_name) == ("ready", target, None)
    assert workflow.transitioned_at is None
    assert [(job.execution_id, job.due) for job in jobs] == [(fresh.id, None)]
    speedrun(workflow)
    steps = ["one", "two", "three"]
    assert (workflow.state, ledger(workflow)) == ("finished", ["one", *steps[steps.index(target) :]])


def test_the_failed_step_can_be_left_behind(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # OPS-41
    plan["two"] = boom
    workflow = start(DirectedFlow)
    perform_next_step(workflow)
    perform_next_step(workflow, raise_errors=False)

    workflow.resume_at("three")
    speedrun(workflow)

    assert (workflow.state, ledger(workflow)) == ("finished", ["one", "three"])
    assert states(workflow)[1] == ("two", "failed", "failed")


@pytest.mark.parametrize("name", ["nowhere", "", "Two", None])
def test_an_unknown_step_is_refused_with_nothing_written(app: Flask, name: Any) -> None:
    # OPS-43
    workflow = paused_at_two()

    with nothing_written(), pytest.raises(StepNotDefinedError) as refusal:
        workflow.resume_at(name)

    assert str(refusal.value).startswith(
        f"Cannot resume_at DirectedFlow #{workflow.id}: step '{name}' is not defined in DirectedFlow. "
        f"The steps defined are: one, two, three. "
    )
    assert (refusal.value.workflow, refusal.value.step_name) == (workflow, name)
    assert reload(workflow).state == "paused"


def test_a_removed_step_is_refused_with_nothing_written(app: Flask) -> None:
    # OPS-44
    workflow = paused_at_two()

    with nothing_written(), pytest.raises(StepNotDefinedError, match="'buried' is a removed_step in DirectedFlow"):
        workflow.resume_at("buried")

    assert reload(workflow).state == "paused"


def test_a_stranded_workflow_is_rescued(app: Flask, ledger: Ledger) -> None:
    # OPS-45, MIS-05
    workflow = start(DirectedFlow)
    db.session.execute(update(step_executions).values(step_name="vanished"))
    db.session.execute(update(workflows).values(next_step_name="vanished"))
    db.session.commit()
    with pytest.raises(StepNotDefinedError):
        perform_next_step(workflow)
    assert workflow.state == "paused"

    workflow.resume_at("three")
    speedrun(workflow)

    assert (workflow.state, ledger(workflow)) == ("finished", ["three"])


def test_a_resumable_step_begins_anew(app: Flask, ledger: Ledger) -> None:
    # OPS-48
    workflow = start(RestartedFlow)
    run_iterations(workflow, 2)
    workflow.pause()

    workflow.resume_at("one")
    speedrun(workflow)

    assert ledger(workflow) == ["0", "1", "0", "1", "2"]
    assert workflow.execution_history[-1].continues_from_id is None


def signalled_and_failed() -> Workflow[Any]:
    workflow = start(SignalledTwiceFlow)
    workflow.signal("go", "first")
    perform_next_step(workflow, raise_errors=False)
    assert workflow.state == "paused"
    return workflow


def test_a_signal_that_is_left_behind_stays_claimed_and_nobody_inherits_it(app: Flask, plan: Plan) -> None:
    # OPS-49, B-12
    plan["one"] = boom
    workflow = signalled_and_failed()

    workflow.resume_at("two")
    perform_next_step(workflow)

    assert_waiting_for_signal(workflow, "go")
    assert_signal_state(workflow, "go", "claimed")
    assert workflow.execution_history[-1].signal_id is None


def test_the_step_that_holds_a_signal_has_it_again(app: Flask, plan: Plan, ledger: Ledger) -> None:
    plan["one"] = boom
    workflow = signalled_and_failed()
    workflow.signal("go", "second")
    plan.clear()

    workflow.resume_at("one")
    speedrun(workflow)

    assert ledger(workflow) == ["one first", "two second"]
    counters = db.session.execute(select(signals.c.claimed, signals.c.consumed).order_by(signals.c.id)).all()
    assert [tuple(row) for row in counters] == [(2, 1), (1, 1)]


def test_a_step_that_is_done_with_its_signal_waits_for_another(app: Flask, ledger: Ledger) -> None:
    workflow = start(SignalledTwiceFlow)
    workflow.signal("go", "first")
    perform_next_step(workflow)
    perform_next_step(workflow)
    workflow.pause()

    workflow.resume_at("one")
    perform_next_step(workflow)

    assert_waiting_for_signal(workflow, "go")
    assert_signal_state(workflow, "go", "consumed")


def test_a_parked_row_is_canceled(app: Flask) -> None:
    # OPS-42
    workflow = start(SignalledTwiceFlow)
    perform_next_step(workflow)
    workflow.pause()

    workflow.resume_at("one")

    assert states(workflow) == [("one", "canceled", "canceled"), ("one", "scheduled", None)]
    stray = workflow.execution_history[0]
    assert stray.waiting_since is not None


def test_a_vanished_class_is_refused_with_nothing_written(app: Flask) -> None:
    # MIS-06
    workflow_id = paused_at_two().id
    db.session.execute(update(workflows).values(type="Vanished"))
    db.session.commit()
    db.session.expunge_all()

    with nothing_written(), pytest.raises(WorkflowNotDefinedError, match=f"Cannot resume_at workflow #{workflow_id}"):
        db.session.get_one(Workflow, workflow_id).resume_at("one")
