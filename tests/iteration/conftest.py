"""The plan and the jobs of the engine's tests, and a table of parcels to walk through."""

from __future__ import annotations

from tests.engine.conftest import jobs, plan

__all__ = ["jobs", "plan"]
