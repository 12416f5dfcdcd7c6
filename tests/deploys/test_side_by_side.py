"""Two releases work on the same rows at once, each in worker processes of its own, in both directions."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from flask_geneva import Workflow
from tests.deploys.first_release import ReleasedFlow
from tests.harness.models import Order, db
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess, Workers
from tests.worker.conftest import Meetings

FIRST, SECOND = "tests.deploys.first_release", "tests.deploys.second_release"
SORTED, SORTED_ANEW = [f"sort {number}" for number in range(4)], [f"sort {number} anew" for number in range(4)]

Ledger = Callable[[Any], list[str]]


@pytest.fixture
def workflow(queueing_app: Flask) -> Workflow[Any]:
    """A workflow that no worker has seen."""
    order = Order()
    db.session.add(order)
    workflow = ReleasedFlow.create(hero=order)
    db.session.commit()
    return workflow


def start(workers: Workers, release: str, *arguments: str) -> WorkerProcess:
    return workers.start(*arguments, modules=[release])


def place_of(workflow: Workflow[Any]) -> tuple[str, str | None, str | None]:
    """The state, the next step and the state of the last attempt, as others have committed them."""
    db.session.rollback()
    db.session.refresh(workflow)
    place = str(workflow.state), workflow.next_step_name, str(workflow.execution_history[-1].state)
    db.session.rollback()
    return place


def wait_for(workflow: Workflow[Any], *place: str | None) -> None:
    eventually(lambda: place_of(workflow) == place, otherwise=lambda: str(place_of(workflow)))


def hand_over(workers: Workers, meetings: Meetings, before: str, after: str) -> None:
    """Let one release stop in the middle of sorting, and the other go on."""
    leaving = start(workers, before)
    meetings.wait_for("sorting")
    start(workers, after)
    leaving.send(signal.SIGTERM)
    eventually(lambda: "warm shut down" in leaving.output)
    meetings.let_go("sorting")
    assert leaving.wait() == 0


def test_the_new_release_goes_on_from_the_cursor_at_which_the_old_one_was_stopped(
    workflow: Workflow[Any], workers: Workers, meetings: Meetings, ledger: Ledger
) -> None:
    # REM-07
    hand_over(workers, meetings, FIRST, SECOND)

    wait_for(workflow, "finished", None, "completed")
    assert ledger(workflow) == [*SORTED[:2], *SORTED_ANEW[2:], "audit", "inform"]


def test_after_a_rollback_the_old_release_goes_on_from_the_cursor_of_the_new_one(
    workflow: Workflow[Any], workers: Workers, meetings: Meetings, ledger: Ledger
) -> None:
    meetings.let_go("clearing")
    hand_over(workers, meetings, SECOND, FIRST)
    wait_for(workflow, "ready", "clear", "waiting")

    workflow.signal("cleared")
    db.session.commit()

    wait_for(workflow, "finished", None, "completed")
    assert ledger(workflow) == [*SORTED_ANEW[:2], *SORTED[2:], "clear", "inform"]


def test_a_step_that_the_old_release_has_in_hand_ends_by_its_rules_and_nobody_else_touches_it(
    workflow: Workflow[Any], workers: Workers, meetings: Meetings, ledger: Ledger
) -> None:
    meetings.let_go("sorting")
    workflow.signal("cleared")
    db.session.commit()
    leaving = start(workers, FIRST)
    meetings.wait_for("clearing")

    new_one = start(workers, SECOND, "--burst")
    assert new_one.wait() == 0
    tidying = workers.run("geneva", "housekeeping", modules=[SECOND])
    assert tidying.wait() == 0
    assert place_of(workflow) == ("performing", "clear", "in_progress")
    leaving.send(signal.SIGTERM)
    eventually(lambda: "warm shut down" in leaving.output)
    meetings.let_go("clearing")
    assert leaving.wait() == 0
    assert start(workers, SECOND, "--burst").wait() == 0

    wait_for(workflow, "finished", None, "completed")
    assert ledger(workflow) == [*SORTED, "clear", "inform"]


@pytest.mark.parametrize("command", [["housekeeping"], ["resume"]])
def test_a_step_that_is_parked_is_released_by_the_release_that_has_removed_it(
    workflow: Workflow[Any], workers: Workers, meetings: Meetings, ledger: Ledger, command: list[str]
) -> None:
    # REM-15
    meetings.let_go("sorting")
    assert start(workers, FIRST, "--burst").wait() == 0
    assert place_of(workflow) == ("ready", "clear", "waiting")
    if command == ["resume"]:
        workflow.pause()
        db.session.commit()
        command = ["resume", str(workflow.id)]

    done = workers.run("geneva", *command, modules=[SECOND])
    assert done.wait() == 0, done.output
    assert start(workers, SECOND, "--burst").wait() == 0

    wait_for(workflow, "finished", None, "completed")
    assert ledger(workflow) == [*SORTED, "audit", "inform"]


def test_a_signal_that_the_new_release_receives_waits_for_the_step_that_only_the_old_one_has(
    workflow: Workflow[Any], workers: Workers, meetings: Meetings, ledger: Ledger
) -> None:
    for name in ("sorting", "clearing"):
        meetings.let_go(name)
    assert start(workers, FIRST, "--burst").wait() == 0

    sent = workers.run("geneva", "signal", str(workflow.id), "cleared", modules=[SECOND])
    assert sent.wait() == 0, sent.output
    assert place_of(workflow) == ("ready", "clear", "waiting")
    for verb in ("pause", "resume"):
        done = workers.run("geneva", verb, str(workflow.id), modules=[FIRST])
        assert done.wait() == 0, done.output
    assert start(workers, FIRST, "--burst").wait() == 0

    wait_for(workflow, "finished", None, "completed")
    assert ledger(workflow) == [*SORTED, "clear", "inform"]
