"""One revision after the other, up and down, with rows in the tables that work at it has made."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
from sqlalchemy import select, text

from flask_geneva import MigrationMissing, Workflow
from flask_geneva.records.tables import step_executions
from flask_geneva.testing import assert_waiting_for_signal, perform_next_step, run_iterations, speedrun
from tests.migrations.projects import TABLES, Project
from tests.migrations.revised import (
    DELIVERIES,
    FIRST,
    RESUMABLE_STEPS,
    REVISIONS,
    SIGNALS,
    STRICT,
    AloneFlow,
    ChargedFlow,
    CountedFlow,
    SimplestFlow,
    all_rows,
    bodies,
    common,
    deliver,
    tables_of,
)

pytestmark = pytest.mark.parametrize("revised_project", [{}, STRICT], ids=["plain", "strict"], indirect=True)

# The tables that each revision has, and how many rows the work at it leaves in them.
ROWS = {
    FIRST: {"geneva_workflows": 1, "geneva_step_executions": 3},
    RESUMABLE_STEPS: {"geneva_workflows": 3, "geneva_step_executions": 7},
    SIGNALS: {"geneva_workflows": 6, "geneva_step_executions": 12, "geneva_signals": 1},
    DELIVERIES: {
        "geneva_workflows": 7,
        "geneva_step_executions": 15,
        "geneva_signals": 2,
        "geneva_webhook_deliveries": 1,
    },
}


def run(project: Project, kind: type[Workflow[Any]]) -> None:
    workflow = kind.create()
    if kind is ChargedFlow:
        workflow.signal("paid", {"cents": 100}, idempotency_key="evt_1")
    project.db.session.commit()
    speedrun(workflow)
    assert workflow.state == "finished"


def work(project: Project, revision: str) -> None:
    """Run what the revision is the first to allow, beside a workflow that needs none of it."""
    run(project, SimplestFlow)
    if revision == RESUMABLE_STEPS:
        run(project, CountedFlow)
    if revision == SIGNALS:
        run(project, ChargedFlow)
        perform_next_step(ChargedFlow.create())
    if revision == DELIVERIES:
        assert deliver(project, "evt_2") == 202
        speedrun(ChargedFlow.get_or_create()[0])


def notice(project: Project) -> None:
    """Run into what has gone: a process that has seen every column finds out by the first error."""
    with contextlib.suppress(MigrationMissing):
        project.db.session.execute(select(step_executions))
    project.db.session.remove()


def test_each_revision_goes_up_and_down_with_rows_in_the_tables(revised_project: Project) -> None:
    project = revised_project
    kept: dict[str, Any] = {}
    for revision in REVISIONS:
        project.flask_db("upgrade", revision)
        assert tables_of(project) == ROWS[revision].keys()
        assert common(kept, all_rows(project)) == kept
        work(project, revision)
        kept = all_rows(project)
        assert {table: len(rows) for table, rows in kept.items()} == ROWS[revision]
    project.flask_db("check")

    for revision in reversed(REVISIONS[:-1]):
        project.flask_db("downgrade", revision)
        assert tables_of(project) == ROWS[revision].keys()
        rows = all_rows(project)
        assert common(rows, kept) == rows == common(kept, rows)
        notice(project)
        run(project, SimplestFlow)
        kept = all_rows(project)

    project.flask_db("upgrade")
    assert common(kept, all_rows(project)) == kept
    project.flask_db("check")
    for kind in (SimplestFlow, CountedFlow, ChargedFlow):
        run(project, kind)

    project.db.session.remove()
    project.flask_db("downgrade", "base")
    assert tables_of(project) == set()


def test_what_was_under_way_goes_on_after_a_revision_was_taken_back(revised_project: Project) -> None:
    project = revised_project
    project.flask_db("upgrade")
    suspended, parked = CountedFlow.create(), ChargedFlow.create()
    project.db.session.commit()
    run_iterations(suspended, 1)
    perform_next_step(parked)
    ids = suspended.id, parked.id
    project.db.session.remove()

    project.flask_db("downgrade", FIRST)
    project.flask_db("upgrade")

    again, parked_again = (project.db.session.get_one(AloneFlow, each) for each in ids)
    assert_waiting_for_signal(parked_again, "paid")
    parked_again.signal("paid")
    project.db.session.commit()
    speedrun(parked_again)
    speedrun(again)
    assert (parked_again.state, again.state) == ("finished", "finished")
    assert bodies == ["count 1", "capture", "count 1", "count 2"]


@pytest.mark.databases("sqlite")
def test_a_later_revision_rewrites_no_table_of_sqlite(revised_project: Project) -> None:
    project = revised_project

    # DBS-09: a table that is rewritten stands on another page.
    def pages() -> dict[str, int]:
        found = text("SELECT name, rootpage FROM sqlite_master WHERE name LIKE '%geneva_%' ORDER BY name")
        return {row.name: row.rootpage for row in project.db.session.execute(found)}

    for revision, next_revision in itertools.pairwise(REVISIONS):
        project.flask_db("upgrade", revision)
        before = pages()
        project.db.session.remove()

        project.flask_db("upgrade", next_revision)

        after = pages()
        project.db.session.remove()
        assert {name: after[name] for name in before} == before
        assert set(TABLES) & before.keys()
