"""Where the steps of real workers and the tests meet, as in the tests of the worker."""

from __future__ import annotations

from tests.engine.conftest import jobs
from tests.worker.conftest import create, frozen, meetings, start, state, story

__all__ = ["create", "frozen", "jobs", "meetings", "start", "state", "story"]
