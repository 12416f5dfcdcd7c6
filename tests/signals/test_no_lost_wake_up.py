"""A signal and whatever else happens to its workflow meet at every possible moment: it is never lost, and acts once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from flask_geneva import Workflow, step
from flask_geneva.records.tables import step_executions
from flask_geneva.testing import perform_next_step
from tests.engine.flows import reload, start, states
from tests.harness.models import Order, db
from tests.signals.flows import Ledger, PaidFlow, TwicePaidFlow, parked
from tests.signals.racing import NEVER, Side, job, race, verb
from tests.signals.test_deadlines import PAST, PauseAtDeadlineFlow, RunAtDeadlineFlow, SkipAtDeadlineFlow

Sides = Callable[[Flask], tuple[Workflow[Any], Side, Side]]
Check = Callable[[Workflow[Any], list[str], list[str]], None]


class TellingFlow(Workflow[Order]):
    """Signals the workflow that its hero's amount names."""

    @step
    def tell(self) -> None:
        db.session.get_one(Workflow, self.hero.amount).signal("paid", 1, idempotency_key="once")


def delivery(workflow: Workflow[Any]) -> Side:
    return verb(workflow, "signal", "paid", 1, idempotency_key="once")


# -- who meets a delivery: each prepares a workflow and both sides


def gate(app: Flask) -> tuple[Workflow[Any], Side, Side]:
    workflow = start(TwicePaidFlow)
    return workflow, job(app, workflow), delivery(workflow)


def gate_straight_on(app: Flask) -> tuple[Workflow[Any], Side, Side]:
    workflow = start(PaidFlow)
    return workflow, job(app, workflow, runs_ahead=True), delivery(workflow)


def gate_with_a_deadline(app: Flask) -> tuple[Workflow[Any], Side, Side]:
    workflow = start(PauseAtDeadlineFlow)
    return workflow, job(app, workflow), delivery(workflow)


def gate_and_another_step(app: Flask) -> tuple[Workflow[Any], Side, Side]:
    workflow = start(TwicePaidFlow)
    return workflow, job(app, workflow), job(app, start(TellingFlow, amount=workflow.id))


def resume(app: Flask) -> tuple[Workflow[Any], Side, Side]:
    workflow = parked(PaidFlow)
    workflow.pause()
    db.session.commit()
    return workflow, verb(workflow, "resume"), delivery(workflow)


def pause(app: Flask) -> tuple[Workflow[Any], Side, Side]:
    workflow = parked(PaidFlow)
    return workflow, verb(workflow, "pause"), delivery(workflow)


def same_delivery(app: Flask) -> tuple[Workflow[Any], Side, Side]:
    workflow = parked(PaidFlow)
    return workflow, delivery(workflow), delivery(workflow)


def other_delivery(app: Flask) -> tuple[Workflow[Any], Side, Side]:
    workflow = parked(PaidFlow)
    return workflow, verb(workflow, "signal", "other", 1, idempotency_key="once"), delivery(workflow)


def skip(app: Flask) -> tuple[Workflow[Any], Side, Side]:
    workflow = parked(PaidFlow)
    return workflow, verb(workflow, "skip"), delivery(workflow)


def cancel(app: Flask) -> tuple[Workflow[Any], Side, Side]:
    workflow = parked(PaidFlow)
    return workflow, verb(workflow, "cancel"), delivery(workflow)


def deadline_of(workflow_class: type[Workflow[Any]]) -> Sides:
    def deadline(app: Flask) -> tuple[Workflow[Any], Side, Side]:
        workflow = parked(workflow_class)
        own = step_executions.c.workflow_id == workflow.id
        db.session.execute(update(step_executions).where(own).values(deadline_at=PAST))
        db.session.commit()
        return workflow, job(app, workflow), delivery(workflow)

    return deadline


# -- what must have come of it


def ran_once(workflow: Workflow[Any], ledger: list[str], ended: list[str]) -> None:
    assert ended == ["ok", "ok"]
    marks = [mark for mark in ledger if mark.startswith(("captured", "deposit"))]
    assert [mark.split()[-1] for mark in marks] == ["1"]
    assert signal_counts(workflow) == ("consumed", 1, 1)


def ran_or_skipped(workflow: Workflow[Any], ledger: list[str], ended: list[str]) -> None:
    assert ended == ["ok", "ok"]
    was_skipped = ("remind", "skipped", "skipped") in states(workflow)
    # Where the deadline won, the signal is left to the step after it, which waits for the same.
    assert ledger == (["captured 1", "ship"] if was_skipped else ["remind"])
    assert signal_counts(workflow) == ("consumed", 1, 1)


def ran_with_or_without(workflow: Workflow[Any], ledger: list[str], ended: list[str]) -> None:
    assert ended[0] == "ok"
    if ledger == ["ran with 1"]:
        assert (ended[1], signal_counts(workflow)) == ("ok", ("consumed", 1, 1))
    else:
        assert ledger == ["ran with None"]
        assert ended[1] == "WorkflowNotOngoing" or signal_counts(workflow) == ("pending", 0, 0)


def skipped_once(workflow: Workflow[Any], ledger: list[str], ended: list[str]) -> None:
    assert ended == ["ok", "ok"]
    assert [mark for mark in ledger if mark.startswith("captured")] == []
    assert [name for name, state, _ in states(workflow) if state == "skipped"] == ["capture"]
    assert signal_counts(workflow) in [("pending", 0, 0), ("consumed", 1, 1)]


def canceled(workflow: Workflow[Any], ledger: list[str], ended: list[str]) -> None:
    assert ended[0] == "ok"
    assert (workflow.state, states(workflow)[-1]) == ("canceled", ("capture", "canceled", "canceled"))
    if ended[1] == "WorkflowNotOngoing":
        assert workflow.signals == []
    else:
        assert (ended[1], signal_counts(workflow)) == ("ok", ("claimed", 1, 0))


def signal_counts(workflow: Workflow[Any]) -> tuple[str, int, int]:
    (signal,) = [each for each in workflow.signals if each.name == "paid"]
    return str(signal.state), signal.claimed, signal.consumed


MEETINGS: list[tuple[Sides, Check]] = [
    (gate, ran_once),
    (gate_straight_on, ran_once),
    (gate_with_a_deadline, ran_once),
    (gate_and_another_step, ran_once),
    (resume, ran_once),
    (pause, ran_once),
    (same_delivery, ran_once),
    (other_delivery, ran_once),
    (skip, skipped_once),
    (cancel, canceled),
    (deadline_of(PauseAtDeadlineFlow), ran_once),
    (deadline_of(SkipAtDeadlineFlow), ran_or_skipped),
    (deadline_of(RunAtDeadlineFlow), ran_with_or_without),
]
NAMES = [
    *(sides.__name__ for sides, _ in MEETINGS[:10]),
    *(f"deadline: {action}" for action in ("pause", "skip", "run")),
]


def meet(app: Flask, sides: Sides, *, exchanged: bool, halts: tuple[int, int]) -> tuple[bool, Workflow[Any], list[str]]:
    workflow, one, other = sides(app)
    was_reached, ended = race(app, *((other, one) if exchanged else (one, other)), *halts)
    return was_reached, workflow, ended[::-1] if exchanged else ended


def to_its_end(workflow: Workflow[Any]) -> Workflow[Any]:
    """Whatever state the race has left, the workflow can go on from it."""
    if reload(workflow).state == "paused":
        workflow.resume()
        db.session.commit()
    while reload(workflow).is_ongoing and workflow.current_execution is not None:
        if workflow.current_execution.state == "waiting":
            break
        perform_next_step(workflow)
    return workflow


@pytest.mark.timeout(240)
@pytest.mark.parametrize("exchanged", [False, True], ids=["first", "second"])
@pytest.mark.parametrize(("sides", "check"), MEETINGS, ids=NAMES)
def test_a_signal_meets_whatever_happens_at_every_moment(
    app: Flask, ledger: Ledger, sides: Sides, check: Check, exchanged: bool
) -> None:
    # SIG-51
    number, was_reached = 0, True
    while was_reached:
        was_reached, workflow, ended = meet(app, sides, exchanged=exchanged, halts=(number, NEVER))

        check(to_its_end(workflow), ledger(workflow), ended)
        number += 1
    # On PostgreSQL a job that ends a deadline has two: the lock and the write.
    assert number > 2


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("exchanged", [False, True], ids=["first", "second"])
@pytest.mark.parametrize(("sides", "check"), [MEETINGS[0], MEETINGS[10]], ids=[NAMES[0], NAMES[10]])
def test_both_sides_stop_at_every_pair_of_moments(
    app: Flask, ledger: Ledger, sides: Sides, check: Check, exchanged: bool
) -> None:
    # SIG-51
    number, was_reached = 0, True
    while was_reached:
        for other in range(1, 12):
            was_reached, workflow, ended = meet(app, sides, exchanged=exchanged, halts=(number, other))
            check(to_its_end(workflow), ledger(workflow), ended)
        number += 1
    # On PostgreSQL a job that ends a deadline has two: the lock and the write.
    assert number > 2


def test_deliveries_of_one_key_at_the_same_instant_are_one_signal(app: Flask) -> None:
    workflow = parked(PaidFlow)
    workflow_id, together, told = workflow.id, threading.Barrier(4), []
    db.session.rollback()

    def deliver() -> None:
        with app.app_context():
            mine = db.session.get_one(Workflow, workflow_id)
            db.session.rollback()
            together.wait()
            signal = mine.signal("paid", idempotency_key="once")
            db.session.commit()
            told.append(signal.duplicate_delivery)

    threads = [threading.Thread(target=deliver) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(told) == [False, True, True, True]
    assert len(reload(workflow).signals) == 1
    assert workflow.signals[0].claimed == 1
