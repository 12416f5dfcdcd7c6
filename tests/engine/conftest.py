"""A plan that is empty at the beginning of each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engine.flows import PLAN


@pytest.fixture
def plan() -> Iterator[dict[str, Callable[..., Any]]]:
    """What steps, conditions, hooks and handlers of the planned workflows do."""
    PLAN.clear()
    yield PLAN
    PLAN.clear()
