"""``flask geneva`` as a process, installed as its users have it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.workers import Workers

ROOT = Path(__file__).parents[2]
MODULES = ["tests.cli.workflows"]

Flask = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def flask(tmp_path: Path) -> Flask:
    """Runs the ``flask`` command in an environment where the package's entry points are installed."""
    metadata = tmp_path / "flask_geneva-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: flask-geneva\nVersion: 0\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [f"{name} = {target}" for name, target in project["entry-points"]["flask.commands"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[flask.commands]", *lines]))

    def run(app: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-m", "flask", "--app", app, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize(
    ("factory", "text"),
    [
        ("misconfigured", "Error: 'GENEVA_RUN_AHEAD' cannot be 'soon'."),
        ("without_geneva", "Error: The application 'without_geneva' has no Geneva."),
        ("misspelled", "Error: ZeroDivisionError: division by zero (/"),
        ("forgotten", "Error: Failed to find attribute 'forgotten'"),
    ],
)
def test_an_application_that_cannot_be_loaded_is_one_line(flask: Flask, factory: str, text: str) -> None:
    done = flask(f"tests.cli.factories:{factory}", "geneva", "list")

    assert done.returncode in (1, 2)
    assert done.stderr.startswith(text)
    assert done.stderr.count("\n") == 1


def test_the_help_is_there_without_an_application(flask: Flask) -> None:
    done = flask("tests.cli.factories:misconfigured", "geneva", "--help")

    assert done.returncode == 0
    assert "Look at workflows, act on them, and run them." in done.stdout
    assert done.stderr.startswith("Error: 'GENEVA_RUN_AHEAD' cannot be 'soon'.")


def test_the_commands_are_those_of_the_application(flask: Flask) -> None:
    listed = flask("tests.cli.factories:in_memory", "geneva", "list")

    assert (listed.returncode, listed.stdout, listed.stderr) == (0, "No workflows.\n", "")
    assert "webhooks" in flask("tests.cli.factories:in_memory", "geneva", "--help").stdout


@pytest.mark.databases("sqlite")
def test_without_the_entry_point_the_commands_are_there_as_well(workers: Workers) -> None:
    shown = workers.run("geneva", "show", "1", modules=MODULES)

    assert shown.wait() == 1
    assert shown.output == "Error: There is no workflow #1.\n"


@pytest.mark.databases("sqlite")
def test_a_worker_runs_what_is_queued_and_stops(workers: Workers, queueing_app: object) -> None:
    worker = workers.start("--burst", modules=MODULES)

    assert worker.wait() == 0
