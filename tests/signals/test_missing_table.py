"""A database without the table of signals: what needs it says so, the rest goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import text

from flask_geneva import Geneva, MigrationMissing, Workflow, step
from flask_geneva.testing import perform_next_step, speedrun
from tests.engine.flows import reload, start
from tests.harness.databases import create_missing_tables
from tests.harness.models import Order, db, write_down
from tests.signals.flows import Ledger, PaidFlow, TwicePaidFlow


class CarefreeFlow(Workflow[Order]):
    """Waits for nothing."""

    @step
    def one(self) -> None:
        write_down(self)

    @step
    def two(self) -> None:
        write_down(self)


class RashFlow(Workflow[Order]):
    """Would cancel on any error."""

    @step(wait_for="paid", on_exception="cancel")
    def one(self) -> None:
        write_down(self)


@pytest.fixture(autouse=True)
def no_table(app: Flask) -> Iterator[None]:
    """There is no table of signals within a test."""
    db.session.execute(text("DROP TABLE geneva_signals"))
    db.session.commit()
    yield
    db.session.remove()
    create_missing_tables(db.engine, db.metadata)


def test_workflows_that_wait_for_nothing_go_on(app: Flask, ledger: Ledger) -> None:
    # SIG-95
    workflow = start(CarefreeFlow)

    speedrun(workflow)

    assert (workflow.state, ledger(workflow)) == ("finished", ["one", "two"])


def test_operators_act_on_workflows_that_wait_for_nothing(app: Flask) -> None:
    # SIG-95
    workflow = start(CarefreeFlow)

    for verb in ("pause", "resume", "skip", "cancel"):
        getattr(workflow, verb)()
        db.session.commit()

    assert workflow.state == "canceled"


def test_a_step_that_waits_is_paused_and_says_what_is_missing(app: Flask, ledger: Ledger) -> None:
    # SIG-96
    workflow = start(TwicePaidFlow)

    with pytest.raises(MigrationMissing, match=r"geneva_signals.*flask geneva install.*flask db upgrade"):
        perform_next_step(workflow)

    failed = reload(workflow).execution_history[-1]
    assert (failed.state, failed.error_class_name, workflow.state) == ("failed", "MigrationMissing", "paused")
    assert ledger(workflow) == []


def test_no_policy_is_asked_about_a_migration_that_is_missing(app: Flask) -> None:
    # SIG-96
    workflow = start(RashFlow)

    perform_next_step(workflow, raise_errors=False)

    assert reload(workflow).state == "paused"


def test_sending_says_what_is_missing(app: Flask) -> None:
    # SIG-97: there is no half of a schema to fall back to, so that nothing is stored and the sender is told.
    workflow = start(PaidFlow)

    with pytest.raises(MigrationMissing, match="geneva_signals"):
        workflow.signal("paid")


def test_housekeeping_goes_on(app: Flask, extension: Geneva) -> None:
    # SIG-98
    start(CarefreeFlow)

    summary = extension.run_housekeeping()

    assert (summary.signals_cleaned_up, summary.failures) == (0, 0)
