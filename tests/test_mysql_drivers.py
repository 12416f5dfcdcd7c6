"""Each driver and each name by which SQLAlchemy knows the server: the same promises, the same errors."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from flask import Flask
from sqlalchemy import make_url, text

from flask_geneva import IterableStep, MigrationMissing, Workflow, WorkflowAlreadyOngoing, resumable_step, step
from flask_geneva.testing import speedrun
from tests.engine.elsewhere import Ledger
from tests.harness.databases import create_missing_tables
from tests.harness.models import StrHero, db, write_down

pytestmark = pytest.mark.databases("mariadb", "mysql")
MODULES = {"pymysql": "pymysql", "mysqldb": "MySQLdb"}


class ByEachDriverFlow(Workflow[StrHero]):
    """Waits for a signal, and counts."""

    @step(wait_for="paid")
    def capture(self) -> None:
        write_down(self, f"paid {self.received_signal.payload['sum']}")  # type: ignore[union-attr]

    @resumable_step(max_iterations=2)
    def count(self, it: IterableStep) -> None:
        for number in it.iterate_over(range(3)):
            write_down(self, str(number))


@pytest.fixture(params=["mysql+pymysql", "mysql+mysqldb", "mariadb+pymysql", "mariadb+mysqldb"])
def database_url(database_url: str, database_kind: str, request: pytest.FixtureRequest) -> str:
    """The same database through each driver; mysqlclient (``MySQLdb``) is built on the machine, where it can be."""
    dialect, driver = request.param.split("+")
    if find_spec(MODULES[driver]) is None:
        pytest.skip(f"the driver {driver} is not installed: pip install mysqlclient, which needs a compiler")
    if dialect == "mariadb" and database_kind == "mysql":
        pytest.skip("this server is MySQL, which SQLAlchemy does not call MariaDB")
    # PyMySQL's own.
    url = make_url(database_url).difference_update_query(["ssl_disabled"]).set(drivername=request.param)
    return url.render_as_string(hide_password=False)


def create(code: str) -> ByEachDriverFlow:
    hero = StrHero(code=code)
    db.session.add(hero)
    db.session.flush()
    workflow = ByEachDriverFlow.create(hero=hero)
    db.session.commit()
    return workflow


def test_a_workflow_runs_from_its_creation_to_its_end(app: Flask, ledger: Ledger) -> None:
    # DBS-01
    workflow = create("Ä")

    for _ in range(2):
        workflow.signal("paid", {"sum": "12 €"}, idempotency_key="evt_1")
        db.session.commit()
    speedrun(workflow)

    assert (workflow.state, len(workflow.signals)) == ("finished", 1)
    assert ledger(workflow) == ["paid 12 €", "0", "1", "2"]


def test_the_unique_index_refuses_and_the_callers_transaction_goes_on(app: Flask) -> None:
    workflow = create("a")

    with pytest.raises(WorkflowAlreadyOngoing) as refusal:
        ByEachDriverFlow.create(hero=workflow.hero)

    assert refusal.value.workflow is workflow
    assert create("b").hero_id == "b"


def test_a_missing_table_is_known_by_the_error_of_the_driver(app: Flask) -> None:
    db.session.execute(text("DROP TABLE geneva_signals"))
    db.session.commit()
    workflow = create("x")

    try:
        with pytest.raises(MigrationMissing, match=r"geneva_signals.*flask db upgrade"):
            workflow.signal("paid")
    finally:
        db.session.rollback()
        create_missing_tables(db.engine, db.metadata)
