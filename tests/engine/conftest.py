"""A plan that is empty at the beginning of each test, and an application that notes the jobs it sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from flask_geneva.engine.runtime import JobRequest
from flask_geneva.worker.job_queue import RQJobQueue
from tests.engine.flows import PLAN


@pytest.fixture
def plan() -> Iterator[dict[str, Callable[..., Any]]]:
    """What steps, conditions, hooks and handlers of the planned workflows do."""
    PLAN.clear()
    yield PLAN
    PLAN.clear()


@pytest.fixture
def jobs(build_app: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[JobRequest]]:
    """The jobs that were sent so far, in the context of the application that sends them; no Redis is asked."""
    sent: list[JobRequest] = []
    monkeypatch.setattr(RQJobQueue, "enqueue", lambda self, requests: sent.extend(requests))
    with build_app("redis://nowhere.invalid/0").app_context():
        yield sent
