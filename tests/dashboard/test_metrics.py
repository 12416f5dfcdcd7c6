"""The gauges for Prometheus: right, and closed until the application opens them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask, redirect

from flask_geneva import Geneva, Workflow, step
from flask_geneva.testing import perform_next_step
from tests.harness.models import Order, db


class MeasuredFlow(Workflow[Order]):
    """Waits for a signal."""

    @step(wait_for="measured")
    def wait_here(self) -> None:
        """Do nothing."""


@pytest.fixture
def opened(extension: Geneva) -> Callable[..., None]:
    """Sets who may look, for one test."""
    return extension.dashboard_access


@pytest.fixture(autouse=True)
def closed_again(extension: Geneva, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension, "_access", None)


def test_nobody_sees_them_until_the_application_says_who(app: Flask) -> None:
    assert app.test_client().get("/geneva/metrics").status_code == 404


def test_in_debug_mode_they_are_open(app: Flask) -> None:
    app.debug = True

    assert app.test_client().get("/geneva/metrics").status_code == 200


@pytest.mark.parametrize(("answer", "status"), [(True, 200), (False, 404), (None, 404)])
def test_the_application_decides_in_the_request(
    app: Flask, opened: Callable[..., None], answer: object, status: int
) -> None:
    opened(lambda: answer)

    assert app.test_client().get("/geneva/metrics").status_code == status


def test_a_response_of_the_application_is_sent(app: Flask, opened: Callable[..., None]) -> None:
    opened(lambda: redirect("/login"))

    answer = app.test_client().get("/geneva/metrics")

    assert (answer.status_code, answer.location) == (302, "/login")


def test_a_parked_workflow_is_counted_by_class_and_state(app: Flask, opened: Callable[..., None]) -> None:
    # HSK-29, HSK-31, HSK-32
    order = Order()
    db.session.add(order)
    perform_next_step(MeasuredFlow.create(hero=order))
    opened(lambda: True)

    answer = app.test_client().get("/geneva/metrics")

    assert answer.content_type.startswith("text/plain; version=0.0.4")
    assert 'geneva_workflows{workflow_class="MeasuredFlow",state="ready"} 1' in answer.text
    assert 'geneva_waiting_step_executions{workflow_class="MeasuredFlow"} 1' in answer.text
    assert 'geneva_paused_ratio{workflow_class="MeasuredFlow"} 0' in answer.text
    assert answer.text.endswith("\n")
