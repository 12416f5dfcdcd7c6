"""A runner of ``flask geneva``, and workflows at every place where a command may find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest
from click.testing import Result
from flask import Flask, has_app_context
from sqlalchemy import update

from flask_geneva.records.tables import workflows
from flask_geneva.testing import perform_next_step
from tests.cli.workflows import ParcelDispatch
from tests.harness.models import Order, db


class Cli(Protocol):
    """Runs ``flask geneva`` with these arguments."""

    def __call__(self, *arguments: object, input: str | None = None) -> Result: ...


@pytest.fixture
def cli(app: Flask) -> Cli:
    """Runs commands in a context of their own, as a process of their own would."""
    return commands_of(app)


def commands_of(app: Flask) -> Cli:
    def run(*arguments: object, input: str | None = None) -> Result:
        if has_app_context():
            db.session.rollback()
        with app.app_context():
            return app.test_cli_runner().invoke(args=["geneva", *map(str, arguments)], input=input)

    return run


@pytest.fixture
def start(app: Flask) -> Callable[..., int]:
    """Creates a workflow and brings it to a place: "scheduled", "parked", "failed" or "paused"; answers its id."""

    def create(place: str = "scheduled") -> int:
        order = Order()
        db.session.add(order)
        db.session.flush()
        workflow = ParcelDispatch.create(hero=order)
        db.session.commit()
        _bring_to(workflow, place)
        db.session.commit()
        return workflow.id

    return create


@pytest.fixture
def place_of(app: Flask) -> Callable[[int], tuple[str, str | None]]:
    """Reads where a workflow stands: its state and its next step."""

    def read(workflow_id: int) -> tuple[str, str | None]:
        db.session.rollback()
        workflow = db.session.get(ParcelDispatch, workflow_id, populate_existing=True)
        assert workflow is not None
        return str(workflow.state), workflow.next_step_name

    return read


def _bring_to(workflow: Any, place: str) -> None:
    if place == "paused":
        workflow.pause()
    if place in ("parked", "failed"):
        perform_next_step(workflow)
        perform_next_step(workflow)
    if place == "failed":
        workflow.signal("paid", "boom")
        db.session.commit()
        perform_next_step(workflow, raise_errors=False)


def change(workflow_id: int, **values: Any) -> None:
    """Write to the row of a workflow, behind the engine's back."""
    db.session.execute(update(workflows).where(workflows.c.id == workflow_id).values(**values))
    db.session.commit()
