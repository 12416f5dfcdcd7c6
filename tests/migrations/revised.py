"""Workflows of which each needs what another revision brought, and projects whose database is at one of them."""

from __future__ import annotations

import json
from typing import Any

from click.testing import Result
from sqlalchemy import inspect, text

from flask_geneva import IterableStep, Workflow, resumable_step, step
from flask_geneva.migrations.installer import VERSIONS
from flask_geneva.webhooks import Delivery, StandardWebhook, WebhookEvent
from tests.migrations.projects import TABLES, Project
from tests.webhooks.signing import SECRET, standard_headers

REVISIONS = [file.name[: len("geneva_0001")] for file in sorted(VERSIONS.glob("*.py"))]
FIRST, RESUMABLE_STEPS, SIGNALS, DELIVERIES = REVISIONS
STRICT = {"convention": True, "render_as_batch": True, "compare_type": True, "compare_server_default": True}

# What ran in this process, for the tests that say that nothing did.
bodies: list[str] = []


class AloneFlow(Workflow[Any]):
    """Any number of them may go on at a time."""

    may_proceed_without_hero = True


class SimplestFlow(AloneFlow):
    """Uses the first revision alone; the first step fails once, and is attempted again."""

    @step(on_exception="reattempt")
    def book(self) -> None:
        bodies.append(f"book {self.id}")
        if bodies.count(f"book {self.id}") == 1:
            raise ConnectionError("The other side does not answer.")

    @step
    def ship(self) -> None:
        bodies.append("ship")


class CountedFlow(AloneFlow):
    """Has a resumable step."""

    @resumable_step
    def count(self, it: IterableStep) -> None:
        for each in it.iterate_over([1, 2]):
            bodies.append(f"count {each}")


class ChargedFlow(AloneFlow):
    """Waits for a signal, and would cancel on any error."""

    @step(wait_for="paid", deadline=3600, on_exception="cancel")
    def capture(self) -> None:
        bodies.append("capture")


def paid(event: WebhookEvent) -> Delivery:
    return Delivery(ChargedFlow.get_or_create()[0], "paid", payload=event.data)


def prepare(project: Project) -> None:
    """Give the project our revisions, and run none of them."""
    project.flask_db("init")
    project.install()
    project.db.metadata.tables["customers"].create(project.engine)
    project.geneva.webhook("payments", StandardWebhook(secrets=[SECRET]))(paid)


def deliver(project: Project, id: str) -> int:
    body = json.dumps({"type": "paid", "data": {"cents": 100}}).encode()
    headers = {**standard_headers(body, id=id), "Content-Type": "application/json"}
    return project.app.test_client().post("/geneva/webhooks/payments", data=body, headers=headers).status_code


def command(project: Project, *arguments: str) -> Result:
    return project.app.test_cli_runner().invoke(args=["geneva", *arguments])


def tables_of(project: Project) -> set[str]:
    return set(inspect(project.engine).get_table_names()) & set(TABLES)


Rows = dict[str, list[dict[str, Any]]]


def all_rows(project: Project) -> Rows:
    """Return every row of each table with the columns that the database has."""
    project.db.session.remove()
    with project.engine.connect() as connection:
        return {
            table: [dict(row) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY id")).mappings()]
            for table in sorted(tables_of(project))
        }


def common(rows: Rows, others: Rows) -> Rows:
    """Return the rows of the tables and with the columns that both have."""
    shared = {table: rows[table][0].keys() & others[table][0].keys() for table in rows.keys() & others.keys()}
    return {table: [{key: row[key] for key in sorted(keys)} for row in rows[table]] for table, keys in shared.items()}
