"""``flask geneva show``: one workflow and all that happened to it, once or as it happens."""

from __future__ import annotations

from typing import Any

import click
from sqlalchemy import Table
from sqlalchemy.orm import Session

from flask_geneva.cli.following import Follower
from flask_geneva.cli.group import OneLine, in_application
from flask_geneva.cli.options import as_json_option
from flask_geneva.cli.options import workflow_id as id_of_workflow
from flask_geneva.cli.printing import hero, moment, print_json, printable
from flask_geneva.cli.timeline_lines import lines_of
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.insights.timelines import Timeline, timeline_of
from flask_geneva.records.tables import signals, step_executions, workflows


@click.command("show")
@click.argument("workflow_id", metavar="ID", type=id_of_workflow)
@click.option("--traceback", "with_traceback", is_flag=True, help="With the traceback of each error.")
@click.option("--follow", "-f", "follows", is_flag=True, help="Go on until the workflow has ended, or Ctrl-C.")
@as_json_option
@in_application
def show_workflow(workflow_id: int, with_traceback: bool, follows: bool, as_json: bool) -> None:
    """Show where a workflow stands and why, and its timeline with signals and errors."""
    if follows and as_json:
        raise click.UsageError("--follow is for people, --json for programs. Leave one of them out.")
    session = current_runtime().session()
    timeline = _timeline(session, workflow_id)
    if as_json:
        print_json(_facts_of(timeline))
        return
    workflow = timeline.workflow
    of_hero = f" of {hero(workflow.hero_type, workflow.hero_id)}" if workflow.hero_type is not None else ""
    click.echo(printable(f"{workflow.type} #{workflow.id}{of_hero}: {workflow.explain()}."))
    click.echo(f"created {moment(workflow.created_at)} UTC")
    if follows:
        Follower(lambda: _timeline(session, workflow_id), with_traceback=with_traceback).follow(session)
        return
    for entry in timeline.entries:
        click.echo()
        for line in lines_of(entry, with_traceback=with_traceback):
            click.echo(printable(line))


def _timeline(session: Session, workflow_id: int) -> Timeline:
    timeline = timeline_of(session, workflow_id)
    if timeline is None:
        raise OneLine(f"There is no workflow #{workflow_id}.")
    return timeline


def _facts_of(timeline: Timeline) -> dict[str, Any]:
    workflow = timeline.workflow
    return {
        **_row(workflow, workflows),
        "explanation": workflow.explain(),
        "step_executions": [_row(each, step_executions) for each in timeline.executions],
        "signals": [_row(each, signals) for each in timeline.signals],
    }


def _row(record: Any, table: Table) -> dict[str, Any]:
    """The columns of a row, by their names; JSON columns as they are stored."""
    mapper = type(record).__mapper__
    return {column.name: getattr(record, mapper.get_property_by_column(column).key) for column in table.columns}
