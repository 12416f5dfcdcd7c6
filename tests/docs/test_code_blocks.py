"""What the pages show works: Python blocks run, and commands exist."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flask.cli import FlaskGroup

from sample_app import create_app
from tests.docs.page_runner import ROOT, blocks

PAGES = [path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]]
SHELL = ("bash", "sh", "console", "shell")


@pytest.mark.parametrize("page", PAGES)
def test_the_python_blocks_of_a_page_run(page: str) -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.docs.page_runner", page]

    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_exist(page: str) -> None:
    lines = [
        line.partition(" #")[0].strip().removeprefix("$ ")
        for block in blocks(ROOT / page)
        if block.language in SHELL
        for line in block.code.replace("\\\n", " ").splitlines()
    ]

    assert [problem for line in lines if line if (problem := problem_with(line))] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text())

    assert [link for link in links if not (folder / link).exists()] == []


def problem_with(line: str) -> str | None:
    """Why a command line of a page would not run; None where it would."""
    words = [word for word in shlex.split(line) if not re.fullmatch(r"[A-Z_]+=.*", word)]
    if not words:
        return None
    checks = {"flask": flask_problem, "make": make_problem, "python": python_problem, "rq": rq_problem}
    if words[0] in checks:
        return checks[words[0]](words[1:])
    return None if words[0] in {"pip", "docker", "git", "cd", "export"} else f"unknown command: {line}"


def flask_problem(words: list[str]) -> str | None:
    if words[:1] == ["--app"]:
        words = words[2:]
    # Leaving the context leaves that of the application too, which looking for its commands enters.
    with FlaskGroup(create_app=create_app).make_context("flask", [], resilient_parsing=True) as context:
        command: Any = context.command
        path: list[str] = []
        while hasattr(command, "get_command"):
            path.append(words[len(path)])
            command = command.get_command(context, path[-1])
            if command is None:
                return f"flask {' '.join(path)} is not a command"
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in {*options, "--help"}]
    return f"flask {' '.join(path)} does not take {' '.join(unknown)}" if unknown else None


def make_problem(words: list[str]) -> str | None:
    makefile = (ROOT / "Makefile").read_text()
    missing = [
        word for word in words if "=" not in word and not re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE)
    ]
    return f"make has no target {' '.join(missing)}" if missing else None


def python_problem(words: list[str]) -> str | None:
    if words[0] != "-m":
        return f"python {' '.join(words)}: only modules are run in the pages"
    return None if words[1] == "venv" or importlib.util.find_spec(words[1]) else f"python -m {words[1]}: no such module"


def rq_problem(words: list[str]) -> str | None:
    if "-w" not in words:
        return "rq worker without -w flask_geneva.GenevaWorker"
    module, _, name = words[words.index("-w") + 1].rpartition(".")
    return None if hasattr(importlib.import_module(module), name) else f"{module} has no {name}"


def test_there_are_pages() -> None:
    assert "README.md" in PAGES
    assert Path("docs/operators.md").as_posix() in PAGES
