"""The child that performs the jobs of a worker stays for the next one, unless there is a reason not to."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from flask_geneva.worker.running import make_worker
from flask_geneva.worker.work_horse import DONE, DONE_AND_LEAVING, Errand, WorkHorse, errands, fork_work_horse
from flask_geneva.worker.worker import GenevaWorker
from tests.worker.workflows import Failing, Processes

AN_ERRAND = Errand(job_id="job", queue="geneva", execution_id="1")


@pytest.fixture
def horses() -> Iterator[list[WorkHorse]]:
    """Children of this process, ended with the test."""
    made: list[WorkHorse] = []
    yield made
    for horse in made:
        if not horse.has_left and horse.cause_of_death is None:
            horse.dismiss()


def answer_all(line: socket.socket) -> None:
    for _ in errands(line):
        line.sendall(DONE)


def test_a_child_answers_after_each_job(horses: list[WorkHorse]) -> None:
    horse = fork_work_horse(answer_all)
    horses.append(horse)

    for _ in range(3):
        assert horse.takes(AN_ERRAND)
        assert horse.wait() == (horse.process_id, 0, None)

    assert horse.cause_of_death is None


def test_a_child_learns_where_its_job_is(horses: list[WorkHorse]) -> None:
    def expect(line: socket.socket) -> None:
        for errand in errands(line):
            line.sendall(DONE if errand == AN_ERRAND else DONE_AND_LEAVING)

    horse = fork_work_horse(expect)
    horses.append(horse)
    horse.takes(AN_ERRAND)
    horse.wait()

    assert not horse.has_left


def test_a_child_can_say_that_it_leaves(horses: list[WorkHorse]) -> None:
    horse = fork_work_horse(lambda line: [line.sendall(DONE_AND_LEAVING) for _ in errands(line)] and None)
    horse.takes(AN_ERRAND)

    assert horse.wait() == (horse.process_id, 0, None)
    assert horse.has_left
    assert is_gone(horse)


def test_a_child_that_is_killed_has_a_cause_of_death() -> None:
    horse = fork_work_horse(lambda line: [os.kill(os.getpid(), signal.SIGKILL) for _ in errands(line)] and None)
    horse.takes(AN_ERRAND)

    _, status, _ = horse.wait()

    assert os.WTERMSIG(status) == signal.SIGKILL
    assert horse.cause_of_death == "signal 9"
    assert not horse.takes(AN_ERRAND)


def test_a_child_that_ends_without_an_answer_has_died_whatever_it_says() -> None:
    horse = fork_work_horse(lambda line: [os._exit(0) for _ in errands(line)] and None)
    horse.takes(AN_ERRAND)

    _, status, _ = horse.wait()

    assert status != 0
    assert horse.cause_of_death == "exit code 0"


def test_the_death_of_a_child_is_seen_whatever_it_has_left_behind() -> None:
    def leave_a_process(line: socket.socket) -> None:
        for _ in errands(line):
            if os.fork() == 0:
                time.sleep(5)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)

    horse = fork_work_horse(leave_a_process)
    horse.takes(AN_ERRAND)

    began = time.monotonic()
    horse.wait()

    assert time.monotonic() - began < 3
    assert horse.cause_of_death == "signal 9"


def test_a_child_that_is_dismissed_ends(horses: list[WorkHorse]) -> None:
    horse = fork_work_horse(answer_all)

    horse.dismiss()

    assert is_gone(horse)


def is_gone(horse: WorkHorse) -> bool:
    try:
        os.kill(horse.process_id, 0)
    except ProcessLookupError:
        return True
    return False


def worker_in_this_process(app: Flask, jobs_of_a_child: int = 1000) -> GenevaWorker:
    worker = make_worker(app, ["geneva"], fork=True)
    assert isinstance(worker, GenevaWorker)
    worker.jobs_of_a_child = jobs_of_a_child
    return worker


def test_jobs_are_done_by_one_child_until_it_has_done_many(
    queueing_app: Flask, create: Callable[..., Any], ledger: Callable[[Any], list[str]]
) -> None:
    workflow = create(Processes)

    worker_in_this_process(queueing_app, jobs_of_a_child=2).work(burst=True)

    first, second, third, fourth = ledger(workflow)
    assert first == second
    assert third == fourth
    assert first != third
    assert str(os.getpid()) not in {first, third}


def test_a_child_whose_job_failed_is_replaced(
    queueing_app: Flask, create: Callable[..., Any], ledger: Callable[[Any], list[str]]
) -> None:
    failing, workflow = create(Failing), create(Processes)

    worker_in_this_process(queueing_app).work(burst=True)

    (before,) = ledger(failing)
    assert before not in set(ledger(workflow))
    assert len(set(ledger(workflow))) == 1


def test_a_child_without_work_is_let_go(
    queueing_app: Flask,
) -> None:
    worker = worker_in_this_process(queueing_app)
    worker._horse = horse = fork_work_horse(answer_all)
    worker.maintenance_interval = 0

    worker.run_maintenance_tasks()

    assert is_gone(horse)
    assert worker._horse is None
