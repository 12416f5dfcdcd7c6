"""Steps that fail, one way after the other, and the attempts that they are granted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask_geneva import Workflow
from flask_geneva.testing import perform_next_step


def raising(*errors: Exception | None) -> Callable[[Any], None]:
    """Raise one after the other; None is a success."""
    to_come = iter(errors)

    def fail(workflow: Any) -> None:
        error = next(to_come)
        if error is not None:
            raise error

    return fail


def fail_again(workflow: Workflow[Any], times: int) -> Workflow[Any]:
    for _ in range(times):
        perform_next_step(workflow, raise_errors=False)
    return workflow
