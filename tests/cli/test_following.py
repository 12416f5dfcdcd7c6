"""``flask geneva show --follow``: what happens, as it happens."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from flask_geneva import IterableStep, Workflow, resumable_step, step
from flask_geneva.cli import following
from flask_geneva.testing import perform_next_step, run_iterations
from tests.cli.conftest import Cli
from tests.engine.elsewhere import elsewhere
from tests.engine.flows import start
from tests.harness.models import Order, db
from tests.harness.workers import ROOT, Workers

MODULES = [__name__]


class FollowedFlow(Workflow[Order]):
    """Counts, with or without a total, and waits for a signal."""

    @resumable_step
    def count(self, it: IterableStep) -> None:
        it.total = self.hero.amount or None
        for number in it.iterate_over(range(200)):
            if self.hero.state == "slowly":
                time.sleep(0.02)
            assert number < 200

    @step(wait_for="paid")
    def capture(self) -> None:
        """Do nothing."""


Acts = Callable[[Workflow[Any]], Any]
Meanwhile = Callable[..., None]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """``meanwhile(workflow, act, act, ...)``: elsewhere, an act each time that the follower rests."""

    def use(workflow: Workflow[Any], *acts: Acts) -> None:
        coming = iter(acts)
        workflow_id = workflow.id

        def act(seconds: float) -> None:
            with elsewhere():
                next(coming)(db.session.get_one(Workflow, workflow_id))
                db.session.commit()

        monkeypatch.setattr(following.time, "sleep", act)

    return use


def nothing(workflow: Workflow[Any]) -> None:
    """Let time pass."""


def test_each_change_is_told_when_it_comes_until_the_workflow_has_ended(cli: Cli, meanwhile: Meanwhile) -> None:
    workflow = start(FollowedFlow, amount=200)
    meanwhile(
        workflow,
        lambda there: run_iterations(there, 150),
        perform_next_step,
        perform_next_step,
        lambda there: there.signal("paid", 7),
        perform_next_step,
    )

    shown = cli("show", workflow.id, "--follow")

    assert shown.exit_code == 0
    told = [
        re.sub(r"^\S+ \S+  |,.*| #\d+| (a moment|\d+ seconds?) ago", "", line) for line in shown.stdout.splitlines()[2:]
    ]
    assert [line for line in told if not line.startswith(" ")] == [
        "count: scheduled",
        "count: completed (continued)",
        "count: scheduled",
        "count: completed (success)",
        "capture: scheduled",
        "capture: waiting",
        "capture: scheduled",
        "signal 'paid': claimed",
        "capture: completed (success)",
        "signal 'paid': consumed",
        "FollowedFlow: finished.",
    ]
    assert "    150 of 200 iterations, 75%, " in shown.stdout


def test_nothing_is_told_twice(cli: Cli, meanwhile: Meanwhile) -> None:
    workflow = start(FollowedFlow)
    meanwhile(workflow, nothing, nothing, lambda there: there.cancel())

    shown = cli("show", workflow.id, "-f")

    assert shown.stdout.count("count #") == 2
    assert re.search(r"canceled (a moment|\d+ seconds?) ago on count", shown.stdout)


def test_whoever_has_seen_enough_ends_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(following.time, "sleep", interrupt)
    workflow = start(FollowedFlow)

    shown = cli("show", workflow.id, "--follow")

    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "scheduled" in shown.stdout


@pytest.mark.databases("sqlite")
def test_programs_do_not_follow(cli: Cli) -> None:
    shown = cli("show", 1, "--follow", "--json")

    assert shown.exit_code == 2
    assert "--follow is for people, --json for programs" in shown.stderr


@pytest.mark.databases("sqlite")
def test_a_workflow_that_is_deleted_meanwhile_is_told(cli: Cli, meanwhile: Meanwhile) -> None:
    workflow = start(FollowedFlow)
    workflow_id = workflow.id
    meanwhile(workflow, lambda there: db.session.delete(there))

    shown = cli("show", workflow_id, "--follow")

    assert (shown.exit_code, shown.stderr) == (1, f"Error: There is no workflow #{workflow_id}.\n")


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize(("total", "seen"), [(200, "%"), (0, "count: ")])
def test_a_terminal_shows_a_bar_that_moves(queueing_app: Flask, workers: Workers, total: int, seen: str) -> None:
    workflow = start(FollowedFlow, amount=total, state="slowly")
    workers.start(modules=MODULES)
    terminal, its_end = pty.openpty()
    follower = subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", "tests.harness.apps", "geneva", "show", str(workflow.id), "--follow"],
        cwd=ROOT,
        env={**workers._environment(MODULES, {}), "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=its_end,
        stderr=its_end,
    )
    os.close(its_end)
    try:
        output = read_until(terminal, "parked" if total else "capture #")
        follower.send_signal(signal.SIGINT)
        assert follower.wait(60) == 0
    finally:
        follower.kill()
        follower.wait()
    assert output.count("\r") > 3
    assert seen in output
    assert "Traceback" not in output


def read_until(terminal: int, words: str, within: float = 60.0) -> str:
    """Read what a terminal shows until the words come."""
    output, give_up = "", time.monotonic() + within
    while words not in output and "capture #" not in output:
        assert time.monotonic() < give_up, output
        if select.select([terminal], [], [], 0.2)[0]:
            output += os.read(terminal, 4096).decode(errors="replace")
    return output
