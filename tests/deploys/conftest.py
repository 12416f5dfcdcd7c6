"""Steps in worker processes and their tests meet here as they do in the tests of the worker."""

from __future__ import annotations

from tests.worker.conftest import meetings as meetings
