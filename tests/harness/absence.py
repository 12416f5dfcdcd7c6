"""What a test does without the server it needs: it is skipped at home, with a reason, and fails in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

MARK = "no server: "


class ServerAbsent(Exception):
    """No usable server answered; the text says which addresses were tried."""


def is_ci() -> bool:
    """Whether every server has to be there."""
    return os.environ.get("CI") == "true"


def leave_out(error: ServerAbsent) -> NoReturn:
    """End the test for want of a server."""
    if is_ci():
        pytest.fail(f"{MARK}{error}. With CI=true it has to be there.", pytrace=False)
    pytest.skip(f"{MARK}{error}")


def reasons(reports: list[pytest.TestReport]) -> dict[str, int]:
    """How many of the skipped tests were left out for which absent server."""
    counted: dict[str, int] = {}
    for report in reports:
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if MARK in text:
            reason = text.partition(MARK)[2]
            counted[reason] = counted.get(reason, 0) + 1
    return counted
