"""``make demo ONCE=1``, the first thing that a newcomer runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.waiting import eventually

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-m", "sample_app.demo"]


def environment(**variables: str) -> dict[str, str]:
    """The present environment, less what would send the demo to other servers."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL", "ONCE")}
    return {**kept, **variables}


@pytest.mark.slow
def test_the_demo_finishes_its_three_orders() -> None:
    demo = subprocess.run(
        DEMO, cwd=ROOT, env=environment(ONCE="1"), capture_output=True, text=True, timeout=110, check=False
    )

    assert demo.returncode == 0, demo.stdout + demo.stderr
    told = "order 2: the provider told the shop, which answered 202 taken, 204 of no interest, 200 known already, 204"
    assert told in demo.stdout
    assert "ship failed: CarrierUnavailable" in demo.stdout
    assert demo.stdout.count("ask for review completed") == 3


@pytest.mark.slow
def test_the_demo_ends_its_children_on_ctrl_c(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("wb") as file:
        demo = subprocess.Popen(
            DEMO, cwd=ROOT, env=environment(TMPDIR=str(tmp_path)), stdout=file, stderr=file, start_new_session=True
        )
    try:
        eventually(lambda: "placed" in output.read_text(), within=60, otherwise=output.read_text)
    finally:
        os.killpg(demo.pid, signal.SIGINT)

    assert demo.wait(40) == 0, output.read_text()
    children = [int(process_id) for process_id in re.findall(r"\(process (\d+)\)", output.read_text())]
    assert len(children) == 3
    assert [child for child in children if runs(child)] == []
    assert list(tmp_path.glob("geneva-*")) == []


def runs(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True
