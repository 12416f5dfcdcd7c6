"""What ``flask geneva housekeeping`` shows of its work."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest
from flask import Flask

from tests.harness.workers import Workers
from tests.housekeeping.workflows import Errand, ago, create, write_execution

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def on_a_terminal(workers: Workers) -> Callable[..., str]:
    """Runs a command whose errors go to a terminal; what is on that terminal in the end."""

    def run(*command: str) -> str:
        ours, theirs = os.openpty()
        process = workers.run(*command, modules=["tests.housekeeping.workflows"], stderr=theirs)
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:
            # How a terminal tells that nobody has it open any more.
            pass
        finally:
            os.close(ours)
        assert process.wait() == 0, process.output
        return shown.decode()

    return run


def test_a_terminal_sees_how_far_it_is(queueing_app: Flask, on_a_terminal: Callable[..., str]) -> None:
    write_execution(create(Errand), scheduled_for=ago(hours=1), job_id="lost")

    shown = on_a_terminal("geneva", "housekeeping")

    assert "lost jobs: 1" in shown
    assert "retention: 0" in shown
    assert "100%" in shown


def test_a_pipe_sees_the_summary_alone(queueing_app: Flask, workers: Workers) -> None:
    write_execution(create(Errand), scheduled_for=ago(hours=1), job_id="lost")

    process = workers.run("geneva", "housekeeping", modules=["tests.housekeeping.workflows"], stderr=subprocess.PIPE)

    assert process.process.communicate()[1] == b""
    assert "stuck scheduled recovered: 1\n" in process.output
