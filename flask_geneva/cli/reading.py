"""The commands that only look: list, show, check, stats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click
from sqlalchemy import Table

from flask_geneva.cli.group import OneLine, in_application
from flask_geneva.cli.options import (
    Filters,
    as_json_option,
    filter_options,
    selection_of,
)
from flask_geneva.cli.options import (
    workflow_id as id_of_workflow,
)
from flask_geneva.cli.printing import first_line, hero, moment, print_json, print_table, printable
from flask_geneva.engine.explanation import in_words
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.insights.checking import Finding, check
from flask_geneva.insights.gauges import ClassGauges, Gauges, read_gauges
from flask_geneva.insights.listing import Standing, page_of
from flask_geneva.insights.timelines import Timeline, timeline_of
from flask_geneva.records.signal import Signal
from flask_geneva.records.step_execution import StepExecution
from flask_geneva.records.tables import signals, step_executions, workflows
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


@click.command("show")
@click.argument("workflow_id", metavar="ID", type=id_of_workflow)
@click.option("--traceback", "with_traceback", is_flag=True, help="With the traceback of each error.")
@as_json_option
@in_application
def show_workflow(workflow_id: int, with_traceback: bool, as_json: bool) -> None:
    """Show where a workflow stands and why, and its timeline with signals and errors."""
    timeline = timeline_of(current_runtime().session(), workflow_id)
    if timeline is None:
        raise OneLine(f"There is no workflow #{workflow_id}.")
    if as_json:
        print_json(_facts_of(timeline))
        return
    workflow = timeline.workflow
    of_hero = f" of {hero(workflow.hero_type, workflow.hero_id)}" if workflow.hero_type is not None else ""
    click.echo(printable(f"{workflow.type} #{workflow.id}{of_hero}: {workflow.explain()}."))
    click.echo(f"created {moment(workflow.created_at)} UTC")
    for entry in timeline.entries:
        click.echo()
        for line in _signal_lines(entry) if isinstance(entry, Signal) else _attempt_lines(entry, with_traceback):
            click.echo(printable(line))


@click.command("check")
@as_json_option
@in_application
def check_code(as_json: bool) -> None:
    """Compare the code with the rows in flight, before or after a deploy; exit status 1 if something does not fit."""
    runtime = current_runtime()
    report = check(runtime.session(), runtime)
    if as_json:
        print_json(report)
    else:
        for finding in report.problems:
            click.echo(_told("problem", finding))
        for finding in report.advice:
            click.echo(_told("advice", finding))
        if not report.problems:
            click.echo("Nothing is stranded, and nothing is broken.")
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


# -- show


def _attempt_lines(attempt: StepExecution, with_traceback: bool) -> Iterator[str]:
    outcome = "" if attempt.outcome is None or attempt.outcome.value == attempt.state.value else f" ({attempt.outcome})"
    yield f"{moment(attempt.created_at)}  {attempt.step_name} #{attempt.id}: {attempt.state}{outcome}{_times(attempt)}"
    if attempt.completed_iterations:
        total = f" of {attempt.iteration_total}" if attempt.iteration_total else ""
        yield f"    {attempt.completed_iterations}{total} iterations, cursor {json.dumps(attempt.stored_cursor)}"
    if attempt.signal_id is not None:
        yield f"    with signal #{attempt.signal_id}"
    details = dict(attempt.details)
    if "reattempt_reason" in details:
        yield f"    to be tried again ({details['reattempt_reason']})"
    error = details.get("exception") or {"class": attempt.error_class_name, "message": attempt.error_message}
    if error["class"]:
        yield f"    {error['class']}: {first_line(error['message'])}"
    if with_traceback:
        yield from (f"    | {line}" for line in error.get("backtrace") or ())


def _times(attempt: StepExecution) -> str:
    parts = []
    if attempt.state is StepState.SCHEDULED:
        parts.append(f"for {moment(attempt.scheduled_for)}")
    if attempt.state is StepState.WAITING:
        parts.append(f"since {moment(attempt.waiting_since)}")
        if attempt.deadline_at is not None:
            parts.append(f"until {moment(attempt.deadline_at)}")
    if attempt.started_at is not None:
        parts.append(f"started {moment(attempt.started_at)}")
        if attempt.finished_at is not None:
            parts.append(f"ran {(attempt.finished_at - attempt.started_at).total_seconds():.3f} s")
    return f", {', '.join(parts)}" if parts else ""


def _signal_lines(signal: Signal) -> Iterator[str]:
    key = f", key {signal.idempotency_key}" if signal.idempotency_key is not None else ""
    yield f"{moment(signal.created_at)}  signal '{signal.name}' #{signal.id}: {signal.state}{key}"
    yield f"    {json.dumps(signal.stored_payload)}"


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
