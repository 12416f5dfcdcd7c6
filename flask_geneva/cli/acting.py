"""The commands that act on workflows: pause, resume, resume-at, skip, cancel, signal.

Each workflow is acted on in a transaction of its own, so that one that fails stops none of the others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from flask_geneva.cli.group import Misused, OneLine, in_application, text_of
from flask_geneva.cli.options import Filters, filter_options, selection_of, workflow_id
from flask_geneva.cli.printing import printable
from flask_geneva.definition.signal_matchers import could_match_name
from flask_geneva.engine.runtime import Runtime, current_runtime
from flask_geneva.engine.transactions import lock_workflow, retry_transient
from flask_geneva.errors import InvalidStateError
from flask_geneva.insights.listing import Selection, ids_of
from flask_geneva.states import WorkflowState
from flask_geneva.workflow import NO_PAYLOAD, Workflow

_READY, _PERFORMING, _PAUSED = WorkflowState.READY, WorkflowState.PERFORMING, WorkflowState.PAUSED


@dataclass(frozen=True, kw_only=True)
class Verb:
    """What is done to each workflow, and to those in which states when none is named."""

    name: str
    call: Callable[[Workflow[Any]], object]
    states: tuple[WorkflowState, ...]


def _verb_options(command: Any) -> Any:
    command = click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)
    command = filter_options(command)
    return click.argument("ids", nargs=-1, type=workflow_id, metavar="[ID]...")(command)


@click.command("pause")
@_verb_options
@in_application
def pause(ids: tuple[int, ...], yes: bool, **filters: Any) -> None:
    """Stop workflows before their next step, by id or by --class, --state, --step."""
    verb = Verb(name="pause", call=lambda workflow: workflow.pause(), states=(_READY, _PERFORMING))
    _apply(verb, ids, Filters(**filters), yes=yes)


@click.command("resume")
@_verb_options
@in_application
def resume(ids: tuple[int, ...], yes: bool, **filters: Any) -> None:
    """Let paused workflows go on from where they stand, by id or by --class, --state, --step."""
    _apply(
        Verb(name="resume", call=lambda workflow: workflow.resume(), states=(_PAUSED,)),
        ids,
        Filters(**filters),
        yes=yes,
    )


@click.command("resume-at")
@_verb_options
@click.argument("at_step", metavar="STEP")
@in_application
def resume_at(ids: tuple[int, ...], at_step: str, yes: bool, **filters: Any) -> None:
    """Let paused workflows go on from the named step, by id or by --class, --state, --step."""
    verb = Verb(name=f"resume at '{at_step}'", call=lambda workflow: workflow.resume_at(at_step), states=(_PAUSED,))
    _apply(verb, ids, Filters(**filters), yes=yes)


@click.command("skip")
@_verb_options
@in_application
def skip(ids: tuple[int, ...], yes: bool, **filters: Any) -> None:
    """Pass over the step that workflows stand at, by id or by --class, --state, --step."""
    _apply(
        Verb(name="skip", call=lambda workflow: workflow.skip(), states=(_READY, _PAUSED)),
        ids,
        Filters(**filters),
        yes=yes,
    )


@click.command("cancel")
@_verb_options
@in_application
def cancel(ids: tuple[int, ...], yes: bool, **filters: Any) -> None:
    """End workflows, by id or by --class, --state, --step."""
    verb = Verb(name="cancel", call=lambda workflow: workflow.cancel(), states=(_READY, _PERFORMING, _PAUSED))
    _apply(verb, ids, Filters(**filters), yes=yes)


@click.command("signal")
@click.argument("target_id", metavar="ID", type=workflow_id)
@click.argument("name")
@click.option("--payload", metavar="JSON", help="What the signal carries; without it, an empty object.")
@click.option("--key", metavar="KEY", help="Idempotency key: a second signal of this name and key does nothing.")
@in_application
def send_signal(target_id: int, name: str, payload: str | None, key: str | None) -> None:
    """Deliver a signal to a workflow, and wake the step that waits for it."""
    value = NO_PAYLOAD if payload is None else _read_payload(payload)
    session = current_runtime().session()
    workflow = _workflow(session, target_id)
    signal = workflow.signal(name, value, idempotency_key=key)
    text = f"Signal #{signal.id} '{signal.name}' of {workflow.type} #{workflow.id}: {signal.state}"
    repeated = ", for it was delivered before and this changed nothing" if signal.duplicate_delivery else ""
    advice = _nobody_waits(workflow, name)
    session.commit()
    click.echo(printable(f"{text}{repeated}.{advice}"))


def _apply(verb: Verb, ids: tuple[int, ...], filters: Filters, *, yes: bool) -> None:
    if bool(ids) == filters.any_given:
        raise Misused("Say which workflows: either ids, or a selection such as --class X --step Y, and not both.")
    runtime = current_runtime()
    failures = _one_by_one(runtime, verb, dict.fromkeys(ids)) if ids else _in_bulk(runtime, verb, filters, yes=yes)
    for failure in failures:
        click.echo(printable(f"Error: {failure}"), err=True)
    if failures:
        click.get_current_context().exit(1)


def _one_by_one(runtime: Runtime, verb: Verb, ids: Iterable[int]) -> list[str]:
    failures = []
    for each in ids:
        try:
            _act(runtime, verb, each, Selection())
            workflow = _workflow(runtime.session(), each)
            click.echo(printable(f"{workflow.type} #{each}: {workflow.explain()}."))
        except Exception as error:
            failures.append(_failure(runtime, each, error))
    return failures


def _in_bulk(runtime: Runtime, verb: Verb, filters: Filters, *, yes: bool) -> list[str]:
    session = runtime.session()
    selection = selection_of(filters, session, runtime)
    if not selection.states:
        selection = selection.in_states(verb.states)
    ids = ids_of(session, selection)
    session.rollback()
    if not ids:
        click.echo("No workflow is in this selection.")
        return []
    click.echo(f"{_workflows(len(ids))} to {verb.name}: {_described(selection)}.")
    if not yes:
        click.confirm("Go on?", abort=True)
    failures = []
    with _progress(ids, verb.name) as bar:
        for each in bar:
            try:
                _act(runtime, verb, each, selection)
            except Exception as error:
                failures.append(_failure(runtime, each, error))
    click.echo(f"Done with {len(ids) - len(failures)} of {_workflows(len(ids))}.")
    return failures


def _act(runtime: Runtime, verb: Verb, workflow_id: int, selection: Selection) -> None:
    """Act on one workflow and commit."""
    session = runtime.session()

    def act() -> None:
        workflow = _workflow(session, workflow_id)
        _refuse_if_moved(session, verb, workflow_id, selection)
        verb.call(workflow)
        session.commit()

    retry_transient(session, act)
    # A long selection would otherwise be kept in memory to its end.
    session.expunge_all()


def _refuse_if_moved(session: Session, verb: Verb, workflow_id: int, selection: Selection) -> None:
    """What was selected and confirmed is acted on, and not what it has become meanwhile; decided under the lock."""
    row = lock_workflow(session, workflow_id)
    if row is None or selection.still_has(row.state, row.next_step_name):
        return
    raise InvalidStateError(
        f"Cannot {verb.name} {row.type} #{workflow_id}: it has moved on since it was selected, and is "
        f"{row.state} at step '{row.next_step_name}'. Look at it with 'flask geneva show {workflow_id}'."
    )


def _workflow(session: Session, workflow_id: int) -> Workflow[Any]:
    statement = select(Workflow).where(Workflow.id == workflow_id).execution_options(populate_existing=True)
    workflow: Workflow[Any] | None = session.execute(statement).scalar_one_or_none()
    if workflow is None:
        raise OneLine(f"There is no workflow #{workflow_id}.")
    return workflow


def _failure(runtime: Runtime, workflow_id: int, error: Exception) -> str:
    """Name the one that failed; where the database itself is gone, the others would fail as well."""
    session = runtime.session()
    session.rollback()
    session.expunge_all()
    session.execute(select(1))
    session.rollback()
    text = error.message if isinstance(error, click.ClickException) else text_of(error)
    return text if f"#{workflow_id}" in text else f"Workflow #{workflow_id}: {text}"


@contextmanager
def _progress(ids: Sequence[int], label: str) -> Iterator[Iterable[int]]:
    if not sys.stderr.isatty():
        yield ids
        return
    with click.progressbar(ids, label=label, file=sys.stderr) as bar:
        yield bar


def _described(selection: Selection) -> str:
    parts = [f"state {' or '.join(selection.states)}"]
    if selection.class_name is not None:
        parts.append(f"class {selection.class_name}")
    if selection.step_name is not None:
        parts.append(f"step {selection.step_name}")
    if selection.hero is not None:
        parts.append(f"hero {selection.hero}")
    if selection.created_before is not None:
        parts.append(f"created before {selection.created_before:%Y-%m-%d %H:%M:%S}")
    if selection.created_after is not None:
        parts.append(f"created after {selection.created_after:%Y-%m-%d %H:%M:%S}")
    return ", ".join(parts)


def _workflows(number: int) -> str:
    return f"{number} workflow{'' if number == 1 else 's'}"


def _read_payload(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Misused(
            f"The payload is no JSON: {error}. Quote it for the shell, as in --payload '{{\"a\": 1}}'."
        ) from error


def _nobody_waits(workflow: Workflow[Any], name: str) -> str:
    definition = getattr(type(workflow), "definition", None)
    if definition is None or any(could_match_name(step.wait_for, name) for step in definition.steps.values()):
        return ""
    return f" No step of {workflow.type} waits for a signal of this name."
