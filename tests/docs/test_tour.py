"""The tour of the README, followed to the letter in an empty folder: its file, its commands, its lines in the shell."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.page_runner import ROOT, blocks

Type = Callable[..., str]
TOUR = blocks(ROOT / "README.md")
START = next(block.line for block in TOUR if "pip install" in block.code)


@pytest.fixture
def type_in(tmp_path: Path, redis_url: str) -> Type:
    """Runs a command in the folder of the tour, with what is typed into it, and answers what it prints."""
    (tmp_path / "shop.py").write_text(next(block.code for block in TOUR if block.language == "python"))
    environment = {**os.environ, "FLASK_APP": "shop", "REDIS_URL": redis_url, "PYTHONPATH": str(ROOT)}

    def run(command: str, typed: str = "") -> str:
        ran = subprocess.run(
            [sys.executable, "-m", *shlex.split(command, comments=True)],
            cwd=tmp_path,
            env=environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran.stdout

    return run


def test_the_tour_can_be_followed(type_in: Type) -> None:
    commands = next(block for block in TOUR if block.line == START).code.splitlines()
    for command in commands:
        if command.startswith("flask"):
            type_in(command.replace("geneva worker", "geneva worker --burst"))

    start, deliver = (block.code for block in [block for block in TOUR if block.line > START][:2])
    shown = type_in("flask shell", start + deliver)
    worked = type_in("flask geneva worker --burst --no-fork")

    assert "scheduled: reserve_stock is due" in shown
    assert "reserved the goods of order 1" in worked
    # The third day is counted as a whole one within the first half second of it.
    assert re.search("scheduled: ask_for_review is due in [23] days", type_in("flask geneva show 1"))
    assert type_in("flask geneva list --state paused") == "No workflows.\n"
