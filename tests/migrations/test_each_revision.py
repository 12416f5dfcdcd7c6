"""One revision after the other, with rows in the tables; and code that is ahead of its database by one, or by all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import Row, Table, inspect, select, text

from flask_geneva import IterableStep, MigrationMissing, Workflow, resumable_step, step
from flask_geneva.migrations.installer import VERSIONS
from flask_geneva.records.tables import signals, step_executions, workflows
from flask_geneva.testing import speedrun
from flask_geneva.webhooks import Delivery, StandardWebhook, WebhookEvent
from flask_geneva.webhooks.delivery_log import DeliveryOutcome, webhook_deliveries
from tests.migrations.projects import TABLES, Project
from tests.webhooks.signing import SECRET, standard_headers

REVISIONS = [file.name.removesuffix(".py")[: len("geneva_0001")] for file in sorted(VERSIONS.glob("*.py"))]
STRICT = {"convention": True, "render_as_batch": True, "compare_type": True, "compare_server_default": True}


class MigratedFlow(Workflow[Any]):
    """Uses every table: signals, cursors, steps."""

    may_proceed_without_hero = True

    @step(wait_for="paid")
    def capture(self) -> None:
        """Do nothing."""

    @resumable_step
    def count(self, it: IterableStep) -> None:
        for _ in it.iterate_over([1, 2]):
            pass


@pytest.fixture(params=[{}, STRICT], ids=["plain", "strict"])
def project(
    new_project: Callable[..., Project], blank_database_url: str, request: pytest.FixtureRequest
) -> Iterator[Project]:
    """A project in its context, with our revisions, none of which was run."""
    project = new_project(blank_database_url, **request.param)
    project.flask_db("init")
    project.install()
    project.db.metadata.tables["customers"].create(project.engine)
    project.geneva.webhook("payments", StandardWebhook(secrets=[SECRET]))(handle)
    with project.app.app_context():
        yield project
        project.db.session.remove()


def handle(event: WebhookEvent) -> Delivery:
    workflow = MigratedFlow.get_or_create()[0]
    return Delivery(workflow, "paid", payload=event.data)


def deliver(project: Project, id: str) -> int:
    body = json.dumps({"type": "paid", "data": {"cents": 100}}).encode()
    headers = {**standard_headers(body, id=id), "Content-Type": "application/json"}
    return project.app.test_client().post("/geneva/webhooks/payments", data=body, headers=headers).status_code


def command(project: Project, *arguments: str) -> Result:
    return project.app.test_cli_runner().invoke(args=["geneva", *arguments])


def run_one(project: Project) -> Workflow[Any]:
    workflow = MigratedFlow.create()
    workflow.signal("paid", {"cents": 100}, idempotency_key="evt_1")
    project.db.session.commit()
    speedrun(workflow)
    return workflow


def rows(project: Project, table: Table) -> list[Row[Any]]:
    project.db.session.rollback()
    return list(project.db.session.execute(select(table).order_by(table.c.id)).all())


def kept(project: Project) -> list[list[Row[Any]]]:
    return [rows(project, table) for table in (workflows, step_executions, signals)]


def delivery(**values: Any) -> Any:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    facts = {"source": "payments", "outcome": DeliveryOutcome.DELIVERED, "http_status": 202, "received_at": now}
    return webhook_deliveries.insert().values(**facts, **values)


def tables_of(project: Project) -> set[str]:
    return set(inspect(project.engine).get_table_names()) & set(TABLES)


def test_each_revision_goes_up_and_down_with_rows_in_the_tables(project: Project) -> None:
    project.flask_db("upgrade", "geneva_0001")
    run_one(project)
    before = kept(project)
    assert [len(each) for each in before] == [1, 2, 1]

    project.flask_db("upgrade", "geneva_0002")
    project.db.session.execute(delivery(headers={"a": ["b"]}))
    project.db.session.commit()
    assert kept(project) == before
    project.flask_db("check")

    project.db.session.remove()
    project.flask_db("downgrade", "geneva_0001")
    assert tables_of(project) == set(TABLES) - {"geneva_webhook_deliveries"}
    assert kept(project) == before

    project.db.session.remove()
    project.flask_db("upgrade")
    assert kept(project) == before
    assert rows(project, webhook_deliveries) == []

    project.db.session.remove()
    project.flask_db("downgrade", "geneva_0001")
    project.flask_db("downgrade")
    assert tables_of(project) == set()


@pytest.mark.databases("sqlite")
def test_a_later_revision_rewrites_no_table_of_sqlite(project: Project) -> None:
    # DBS-09
    def pages() -> list[Any]:
        found = text("SELECT name, rootpage FROM sqlite_master WHERE name LIKE '%geneva_%' ORDER BY name")
        return [row for row in project.db.session.execute(found) if "webhook" not in row.name]

    project.flask_db("upgrade", REVISIONS[0])
    before = pages()
    project.db.session.remove()

    project.flask_db("upgrade")

    assert pages() == before


def test_one_revision_behind_everything_goes_on_but_the_log_of_deliveries(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    # INS-08
    project.flask_db("upgrade", REVISIONS[-2])

    assert run_one(project).state == "finished"
    assert deliver(project, "evt_2") == 202
    assert deliver(project, "evt_2") == 200
    assert "left no row in the log of deliveries" in caplog.text
    assert project.geneva.run_housekeeping().failures == 0
    for arguments in (["list"], ["show", "1"], ["stats"], ["check"], ["housekeeping"], ["pause", "2"], ["resume", "2"]):
        done = command(project, *arguments)
        assert (done.exit_code, done.stderr) == (0, ""), arguments

    listed = command(project, "webhooks", "list")
    assert listed.exit_code == 1
    assert "geneva_webhook_deliveries" in listed.stderr
    assert "flask geneva install" in listed.stderr
    assert "flask db upgrade" in listed.stderr
    with pytest.raises(MigrationMissing, match=r"geneva_webhook_deliveries.*flask geneva install.*flask db upgrade"):
        project.db.session.execute(select(webhook_deliveries))


def test_without_any_revision_every_use_names_the_commands_and_the_application_goes_on(project: Project) -> None:
    # INS-08
    with pytest.raises(MigrationMissing, match=r"geneva_workflows.*flask geneva install.*flask db upgrade"):
        MigratedFlow.create()
    project.db.session.rollback()

    for arguments in (["list"], ["check"], ["stats"], ["housekeeping"], ["pause", "1"]):
        done = command(project, *arguments)
        assert done.exit_code == 1, arguments
        assert done.stderr.count("\n") == 1
        assert "flask db upgrade" in done.stderr

    assert command(project, "check", "--code-only").exit_code == 0
    assert deliver(project, "evt_1") == 503
    assert project.app.test_client().get("/nothing").status_code == 404


def test_after_the_upgrade_what_was_missing_works_in_the_same_process(project: Project) -> None:
    # TST-18
    project.flask_db("upgrade", REVISIONS[-2])
    assert deliver(project, "evt_1") == 202
    assert command(project, "webhooks", "list").exit_code == 1

    project.db.session.remove()
    project.flask_db("upgrade")

    assert deliver(project, "evt_1") == 200
    assert command(project, "webhooks", "list").exit_code == 0
    assert len(rows(project, webhook_deliveries)) == 1
