"""Code that is ahead of its database: by each number of revisions, and by all of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from sqlalchemy import func, select

from flask_geneva import MigrationMissing, StepExecution
from flask_geneva.testing import perform_next_step, speedrun
from flask_geneva.webhooks.delivery_log import webhook_deliveries
from tests.migrations.projects import Project
from tests.migrations.revised import (
    FIRST,
    RESUMABLE_STEPS,
    REVISIONS,
    SIGNALS,
    AloneFlow,
    ChargedFlow,
    CountedFlow,
    SimplestFlow,
    bodies,
    command,
    deliver,
)

REMEDY = r"flask geneva install.*flask db upgrade"

# What each kind of workflow needs, and what the error names where it is lacking.
NEEDS = [
    (CountedFlow, RESUMABLE_STEPS, r"geneva_step_executions\.cursor_value"),
    (ChargedFlow, SIGNALS, r"geneva_step_executions\.signal_id"),
]
BODIES = {CountedFlow: ["count 1", "count 2"], ChargedFlow: ["capture"]}
LACKING = [
    pytest.param(kind, revision, named, id=f"{kind.__name__}-at-{revision}")
    for kind, needed, named in NEEDS
    for revision in REVISIONS[: REVISIONS.index(needed)]
]


@pytest.fixture
def project(revised_project: Project) -> Project:
    return revised_project


@pytest.fixture(params=REVISIONS[:-1])
def behind(project: Project, request: pytest.FixtureRequest) -> Project:
    """A project whose database is at each revision but the last."""
    project.flask_db("upgrade", request.param)
    return project


def create(project: Project, kind: type[AloneFlow] = SimplestFlow) -> AloneFlow:
    """Commit one; another may be ongoing."""
    workflow = kind.create(allow_multiple=True)
    project.db.session.commit()
    return workflow


def fresh(project: Project, workflow: AloneFlow) -> AloneFlow:
    project.db.session.rollback()
    return project.db.session.get_one(AloneFlow, workflow.id, populate_existing=True)


def test_workflows_that_need_no_later_revision_run(behind: Project) -> None:
    # INS-08, RES-65, SIG-95
    created = SimplestFlow.create()
    behind.db.session.commit()
    found, is_new = SimplestFlow.get_or_create()
    workflows = [created, *SimplestFlow.create_many([None, None, None], allow_multiple=True)]
    behind.db.session.commit()

    for workflow in workflows:
        speedrun(workflow)

    assert (found.id, is_new) == (created.id, False)
    assert {workflow.state for workflow in workflows} == {"finished"}
    assert bodies.count("ship") == len(workflows)


def test_every_verb_works_on_them(behind: Project) -> None:
    workflow = create(behind)
    for verb in ("pause", "resume", "skip", "pause"):
        getattr(workflow, verb)()
        behind.db.session.commit()
    workflow.resume_at("book")
    behind.db.session.commit()
    assert workflow.explain()
    assert [each.state for each in workflow.execution_history if each.step_name == "book"] == ["skipped", "scheduled"]
    workflow.cancel()
    behind.db.session.commit()
    assert fresh(behind, workflow).state == "canceled"


def test_housekeeping_does_what_there_is_to_do(behind: Project) -> None:
    # SIG-98
    speedrun(create(behind))
    kept = create(behind).id
    behind.db.session.remove()

    with time_machine.travel(datetime.now(UTC) + timedelta(days=31), tick=False):
        summary = behind.geneva.run_housekeeping()

    assert summary.failures == 0
    assert summary.signals_cleaned_up == 0
    assert behind.db.session.scalars(select(AloneFlow.id)).all() == [kept]


def test_every_command_works(behind: Project) -> None:
    for _ in range(4):
        create(behind)
    speedrun(behind.db.session.get_one(AloneFlow, 1))
    behind.db.session.remove()
    for arguments in (
        ["list"],
        ["list", "--state", "ready", "--json"],
        ["show", "1"],
        ["show", "1", "--json"],
        ["graph", "SimplestFlow"],
        ["stats"],
        ["check"],
        ["housekeeping"],
        ["pause", "2"],
        ["resume", "2"],
        ["pause", "2"],
        ["resume-at", "2", "ship"],
        ["skip", "3"],
        ["cancel", "4", "--yes"],
    ):
        done = command(behind, *arguments)
        assert (done.exit_code, done.stderr) == (0, ""), (arguments, done.output)
    stood = select(AloneFlow.state, AloneFlow.next_step_name).order_by(AloneFlow.id)
    assert [tuple(row) for row in behind.db.session.execute(stood)] == [
        ("finished", None),
        ("ready", "ship"),
        ("ready", "ship"),
        ("canceled", "book"),
    ]


def test_the_gauges_are_served(behind: Project) -> None:
    behind.geneva.dashboard_access(lambda: True)
    create(behind)

    answer = behind.app.test_client().get("/geneva/metrics")

    assert answer.status_code == 200
    assert b'class="SimplestFlow"' in answer.data


@pytest.mark.parametrize(("kind", "revision", "named"), LACKING)
def test_a_step_that_the_database_cannot_hold_is_paused_and_runs_after_the_upgrade(
    project: Project, kind: type[AloneFlow], revision: str, named: str
) -> None:
    # RES-66, SIG-96: no policy is asked. TST-18: the same process sees the upgrade.
    project.flask_db("upgrade", revision)
    workflow = create(project, kind)
    with pytest.raises(MigrationMissing, match=rf"{named}.*{REMEDY}"):
        perform_next_step(workflow)
    failed = fresh(project, workflow).execution_history[-1]
    assert (failed.state, failed.error_class_name) == ("failed", "MigrationMissing")
    assert (fresh(project, workflow).state, bodies) == ("paused", [])
    project.db.session.remove()

    project.flask_db("upgrade")

    workflow = project.db.session.get_one(AloneFlow, 1)
    workflow.resume()
    if kind is ChargedFlow:
        workflow.signal("paid")
    project.db.session.commit()
    speedrun(workflow)
    assert (workflow.state, bodies) == ("finished", BODIES[kind])


@pytest.mark.parametrize("revision", REVISIONS[: REVISIONS.index(SIGNALS)])
def test_sending_a_signal_says_what_is_missing_and_leaves_the_transaction_usable(
    project: Project, revision: str
) -> None:
    project.flask_db("upgrade", revision)
    workflow = create(project, ChargedFlow)

    with pytest.raises(MigrationMissing, match=rf"geneva_signals.*{REMEDY}"):
        workflow.signal("paid")

    sent = command(project, "signal", "1", "paid")
    assert (sent.exit_code, sent.stderr.count("\n")) == (1, 1)
    assert "flask db upgrade" in sent.stderr
    assert deliver(project, "evt_1") == 503
    assert fresh(project, workflow).state == "ready"


def test_the_log_of_deliveries_is_all_that_the_last_revision_is_for(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    project.flask_db("upgrade", SIGNALS)
    for kind in (CountedFlow, ChargedFlow):
        workflow = create(project, kind)
        if kind is ChargedFlow:
            workflow.signal("paid")
            project.db.session.commit()
        speedrun(workflow)

    assert deliver(project, "evt_2") == 202
    assert deliver(project, "evt_2") == 200
    assert "left no row in the log of deliveries" in caplog.text
    listed = command(project, "webhooks", "list")
    assert listed.exit_code == 1
    assert re.search(f"geneva_webhook_deliveries.*{REMEDY}", listed.stderr)
    with pytest.raises(MigrationMissing, match=rf"geneva_webhook_deliveries.*{REMEDY}"):
        project.db.session.execute(select(webhook_deliveries))

    project.db.session.remove()
    project.flask_db("upgrade")

    assert deliver(project, "evt_2") == 200
    assert command(project, "webhooks", "list").exit_code == 0
    assert project.db.session.scalar(select(func.count()).select_from(webhook_deliveries)) == 1


def test_a_process_under_which_the_database_went_back_finds_out_by_the_first_error(project: Project) -> None:
    project.flask_db("upgrade")
    for _ in range(2):
        create(project)
    project.db.session.remove()
    project.flask_db("downgrade", FIRST)

    with pytest.raises(MigrationMissing, match=REMEDY):
        project.db.session.scalars(select(StepExecution)).all()

    project.db.session.rollback()
    for id in (1, 2):
        workflow = project.db.session.get_one(AloneFlow, id)
        speedrun(workflow)
        assert workflow.state == "finished"


def test_without_any_revision_every_use_names_the_commands_and_the_application_goes_on(project: Project) -> None:
    # INS-08
    with pytest.raises(MigrationMissing, match=rf"geneva_workflows.*{REMEDY}"):
        SimplestFlow.create()
    project.db.session.rollback()

    for arguments in (["list"], ["check"], ["stats"], ["housekeeping"], ["pause", "1"]):
        done = command(project, *arguments)
        assert done.exit_code == 1, arguments
        assert done.stderr.count("\n") == 1
        assert "flask db upgrade" in done.stderr

    assert command(project, "check", "--code-only").exit_code == 0
    assert deliver(project, "evt_1") == 503
    assert project.app.test_client().get("/nothing").status_code == 404
