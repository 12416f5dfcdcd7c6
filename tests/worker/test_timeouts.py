"""A step that takes too long is ended, in its own code and nowhere else."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from flask_geneva import StepTimeout
from flask_geneva.engine.run import NoTimeLimit
from flask_geneva.worker.timeout import AlarmTimeLimit, time_limit
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess
from tests.worker.workflows import SeveralSlow, Slow

Ledger = Callable[[Any], list[str]]
Story = Callable[[Any], list[tuple[str, str, str | None]]]


@pytest.fixture(autouse=True)
def the_signals_of_the_test() -> Iterator[None]:
    """pytest-timeout uses the same alarm; it has it back when the test is over."""
    handler = signal.getsignal(signal.SIGALRM)
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, left)


def run_for(seconds: float) -> None:
    """Be busy for so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@pytest.mark.parametrize("fork", [(), ("--no-fork",)], ids=["fork", "no-fork"])
def test_a_step_over_its_limit_is_ended_and_cannot_swallow_it(
    fork: tuple[str, ...],
    start: Callable[..., WorkerProcess],
    create: Callable[..., Any],
    ledger: Ledger,
    story: Story,
) -> None:
    workflow = create(Slow)
    worker = start(*fork)

    eventually(lambda: "after" in ledger(workflow), otherwise=lambda: worker.output)

    assert story(workflow)[0] == ("sleepy", "skipped", "skipped")
    assert ledger(workflow) == ["after"]
    noted = workflow.execution_history[0].details["exception"]
    assert (noted["class"], noted["message"]) == ("StepTimeout", "The step ran longer than its limit of 1 seconds.")


def test_each_step_has_its_time_anew_when_a_job_runs_several(
    queueing_app: Flask, burst: Callable[..., None], create: Callable[..., Any], ledger: Ledger
) -> None:
    workflow = create(SeveralSlow)

    burst()

    assert len(ledger(workflow)) == 4


def test_the_alarm_rings_within_a_step() -> None:
    limit = AlarmTimeLimit(0.05)

    with pytest.raises(StepTimeout, match=r"0\.05 seconds"), limit.of_step():
        run_for(5)


def test_the_alarm_does_not_ring_after_a_step() -> None:
    limit = AlarmTimeLimit(0.05)

    with limit.of_step():
        pass
    run_for(0.1)


def test_the_alarm_is_held_back_while_the_engine_is_at_work() -> None:
    limit = AlarmTimeLimit(0.05)
    done: list[str] = []

    def work() -> None:
        with limit.of_step():
            with limit.suspended():
                run_for(0.1)
                done.append("engine")
            done.append("step")

    with pytest.raises(StepTimeout):
        work()
    assert done == ["engine"]


def test_an_error_of_the_engine_is_not_hidden_by_the_alarm() -> None:
    limit = AlarmTimeLimit(0.05)

    def fail_late() -> None:
        run_for(0.1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), limit.of_step(), limit.suspended():
        fail_late()


def test_the_next_step_has_its_own_time() -> None:
    limit = AlarmTimeLimit(0.1)

    for _ in range(3):
        with limit.of_step(), limit.suspended():
            run_for(0.06)


def test_the_alarm_of_the_job_is_put_out() -> None:
    rang: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, frame: rang.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.05)

    time_limit(60)
    run_for(0.1)

    assert rang == []


@pytest.mark.parametrize("seconds", [None, -1, 0])
def test_a_job_without_a_limit_gives_its_steps_none(seconds: float | None) -> None:
    assert isinstance(time_limit(seconds), NoTimeLimit)
