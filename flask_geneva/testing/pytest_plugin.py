"""The pytest plugin: a fixture ``geneva`` with the helpers as attributes.

It imports the helpers when the fixture is asked for, so that a test run without it pays nothing.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest


@pytest.fixture
def geneva() -> ModuleType:
    """Return :mod:`flask_geneva.testing`: ``geneva.speedrun(workflow)``, ``geneva.assert_workflow_state(...)``."""
    return import_module("flask_geneva.testing")
