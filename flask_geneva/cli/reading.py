"""The commands that look at many workflows: list, check, stats."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from flask_geneva.cli.group import in_application
from flask_geneva.cli.options import (
    Filters,
    as_json_option,
    filter_options,
    selection_of,
)
from flask_geneva.cli.options import (
    workflow_id as id_of_workflow,
)
from flask_geneva.cli.printing import first_line, hero, print_json, print_table, printable
from flask_geneva.engine.explanation import in_words
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.insights.checking import check
from flask_geneva.insights.code_checking import check_code_alone
from flask_geneva.insights.findings import Finding
from flask_geneva.insights.gauges import ClassGauges, Gauges, read_gauges
from flask_geneva.insights.listing import Standing, page_of
from flask_geneva.states import ENDED_WORKFLOW_STATES, StepState, WorkflowState


@click.command("list")
@filter_options
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@click.option("--before", type=id_of_workflow, metavar="ID", help="The page after this id.")
@as_json_option
@in_application
def list_workflows(limit: int, before: int | None, as_json: bool, **filters: Any) -> None:
    """List workflows, newest first, with the step that each stands at."""
    runtime = current_runtime()
    session = runtime.session()
    selection = selection_of(Filters(**filters), session, runtime)
    found = page_of(session, selection, before_id=before, limit=limit + 1)
    page, more = found[:limit], len(found) > limit
    if as_json:
        print_json(page)
        return
    now = runtime.now()
    print_table(
        (
            f"#{each.id}",
            each.type,
            hero(each.hero_type, each.hero_id),
            each.state,
            each.step_name or "",
            _why(each, now),
        )
        for each in page
    )
    if more:
        click.echo(f"There are more: --before {page[-1].id}")
    elif not page:
        click.echo("No workflows.")


@click.command("check")
@click.option("--code-only", is_flag=True, help="Look at the code alone; needs no database.")
@as_json_option
@in_application
def check_code(code_only: bool, as_json: bool) -> None:
    """Compare the code with the rows in flight, before or after a deploy; exit status 1 if something does not fit."""
    runtime = current_runtime()
    report = check_code_alone(runtime) if code_only else check(runtime.session(), runtime)
    if as_json:
        print_json(report)
    else:
        for finding in report.problems:
            click.echo(_told("problem", finding))
        for finding in report.advice:
            click.echo(_told("advice", finding))
        if not report.problems:
            click.echo(
                "The workflow classes are in order. Rows in flight were not looked at."
                if code_only
                else "Nothing is stranded, and nothing is broken."
            )
    if report.problems:
        click.get_current_context().exit(1)


@click.command("stats")
@as_json_option
@in_application
def show_gauges(as_json: bool) -> None:
    """Print the gauges: workflows by class and state, steps that wait, steps that are overdue."""
    runtime = current_runtime()
    gauges = read_gauges(runtime.session(), runtime)
    if as_json:
        print_json(
            {"total": _gauge_facts(gauges.total), "classes": {k: _gauge_facts(v) for k, v in gauges.classes.items()}}
        )
        return
    print_table(_gauge_rows(gauges))


# -- list


def _line(each: Standing, now: datetime) -> tuple[str, ...]:
    of_hero = hero(each.hero_type, each.hero_id)
    return f"#{each.id}", each.type, of_hero, each.state, each.step_name or "", _why(each, now)


def _why(each: Standing, now: datetime) -> str:
    if each.state in ENDED_WORKFLOW_STATES:
        return "" if each.transitioned_at is None else f"{in_words(now - each.transitioned_at)} ago"
    if each.step_state is StepState.FAILED:
        return f"{each.error_class_name}: {first_line(each.error_message)}"[:100]
    if each.step_state is StepState.WAITING and each.waiting_since is not None:
        return f"parked since {in_words(now - each.waiting_since)}"
    if each.step_state is StepState.SCHEDULED and each.scheduled_for is not None:
        apart = in_words(each.scheduled_for - now)
        return f"due in {apart}" if each.scheduled_for > now else f"due since {apart}"
    return "" if each.pending_request is None else f"{each.pending_request} asked for"


# -- check and stats


def _told(word: str, finding: Finding) -> str:
    return printable(f"{word}: {finding.text}")


def _gauge_facts(gauges: ClassGauges) -> dict[str, Any]:
    return {**vars(gauges), "paused_ratio": gauges.paused_ratio}


def _gauge_rows(gauges: Gauges) -> Iterator[list[str]]:
    yield ["class", *WorkflowState, "% paused", "parked", "too long", "overdue", "oldest"]
    for name, each in [*gauges.classes.items(), ("total", gauges.total)]:
        yield [
            name,
            *(str(each.workflows[state]) for state in WorkflowState),
            f"{each.paused_ratio:.0%}",
            str(each.waiting),
            "-" if each.waiting_overdue is None else str(each.waiting_overdue),
            str(each.overdue_scheduled),
            f"{each.oldest_overdue_age_seconds:.0f} s",
        ]
