"""New workflows: the row, its first execution, and the rule of one ongoing workflow a class and hero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, or_, select, true
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from flask_geneva import events
from flask_geneva.definition.job_options import read_own_job_options
from flask_geneva.definition.workflow_definition import WorkflowDefinition
from flask_geneva.engine.outbox import announce_after_commit
from flask_geneva.engine.runtime import Runtime
from flask_geneva.engine.scheduling import next_execution, send
from flask_geneva.engine.transactions import current_shared
from flask_geneva.errors import HeroMissing, InvalidStateError, WorkflowAlreadyOngoing
from flask_geneva.records import heroes
from flask_geneva.records.instances import instance_of
from flask_geneva.records.savepoints import savepoint
from flask_geneva.records.saving import insert_all, insert_both_unless_taken, insert_unless_taken
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.tables import workflows
from flask_geneva.records.transitions import move_workflow, new_workflow
from flask_geneva.records.workflow_row import WorkflowRow
from flask_geneva.states import ONGOING_WORKFLOW_STATES, WorkflowState

MAX_RACES = 5
# Ids go into the statement one by one, and databases take no more than some ten thousand.
MAX_IDS = 1000

_Reference = tuple[str | None, str | None]
_NOBODY: _Reference = (None, None)


def create(
    runtime: Runtime,
    session: Session,
    workflow_class: type[Any],
    hero: object | None,
    *,
    allow_multiple: bool,
    job_options: Mapping[str, Any] | None,
) -> Any:
    """Insert a workflow and its first execution; flush.

    :raises WorkflowAlreadyOngoing: when the unique index refuses; the caller's transaction stays usable.
    """
    definition = workflow_class.definition
    _refuse_missing(definition, hero)
    options = read_own_job_options(job_options, where=f"{definition.name}.create")
    session.flush()
    reference = _reference_to(hero, session)
    if not allow_multiple:
        _refuse_beside_older_rows(session, workflow_class, [reference])
    now = runtime.now()
    workflow = _draft(definition, reference, allow_multiple=allow_multiple, options=options, now=now)
    first = definition.steps.first()
    execution = None if first is None else next_execution(workflow, first, now=now)
    if not _insert(session, workflow, execution, now=now):
        holder = current_shared(session, _the_ongoing_one(workflow_class, *reference))
        other = session.execute(holder).scalar_one_or_none()
        raise WorkflowAlreadyOngoing(definition.name, _named(reference), other)
    if execution is not None:
        send(runtime, session, workflow, execution, now=now)
    return _announced(runtime, session, workflow_class, workflow)


def create_many(
    runtime: Runtime,
    session: Session,
    workflow_class: type[Any],
    wanted: Sequence[object | None],
    *,
    allow_multiple: bool,
    job_options: Mapping[str, Any] | None,
) -> list[Any]:
    """Insert workflows and their first executions, many with a statement, all or none; flush.

    :raises WorkflowAlreadyOngoing: when the unique index refuses one; the caller's transaction stays usable.
    """
    definition = workflow_class.definition
    for hero in wanted:
        _refuse_missing(definition, hero)
    options = read_own_job_options(job_options, where=f"{definition.name}.create_many")
    session.flush()
    references = [_reference_to(hero, session) for hero in wanted]
    if not allow_multiple:
        _refuse_twice(definition, references)
        _refuse_beside_older_rows(session, workflow_class, references)
    now = runtime.now()

    def drafts() -> list[WorkflowRow]:
        return [
            _draft(definition, reference, allow_multiple=allow_multiple, options=options, now=now)
            for reference in references
        ]

    rows = _inserted(session, workflow_class, references, drafts, now=now)
    first = definition.steps.first()
    if first is not None:
        executions = [next_execution(workflow, first, now=now) for workflow in rows]
        insert_all(session, executions, now=now)
        for workflow, execution in zip(rows, executions, strict=True):
            send(runtime, session, workflow, execution, now=now)
    return [_announced(runtime, session, workflow_class, workflow) for workflow in rows]


def get_or_create(
    runtime: Runtime, session: Session, workflow_class: type[Any], hero: object | None, **options: Any
) -> tuple[Any, bool]:
    """Return the ongoing workflow, or create it; right under a race, since the unique index decides."""
    for _ in range(MAX_RACES):
        other = _find_ongoing(session, workflow_class, hero)
        if other is not None:
            return other, False
        try:
            return create(runtime, session, workflow_class, hero, allow_multiple=False, **options), True
        except WorkflowAlreadyOngoing as refusal:
            if refusal.workflow is not None:
                return refusal.workflow, False
    raise InvalidStateError(
        f"Cannot get or create {workflow_class.definition.name}: at each of {MAX_RACES} attempts another one was there "
        f"and had ended when it was looked for. Try again."
    )


def _refuse_missing(definition: WorkflowDefinition, hero: object | None) -> None:
    if hero is None and not definition.may_proceed_without_hero:
        raise HeroMissing(definition.name)


def _refuse_twice(definition: WorkflowDefinition, references: Sequence[_Reference]) -> None:
    """None is refused by the index as well, but by that nobody would know which."""
    for reference, times in Counter(references).items():
        if times > 1:
            raise WorkflowAlreadyOngoing(definition.name, _named(reference), None, is_named_twice=True)


def _refuse_beside_older_rows(session: Session, workflow_class: type[Any], references: Sequence[_Reference]) -> None:
    """Rows that have a former name of the class: the unique index does not know them for rows of the same class."""
    if workflow_class.definition.former_names:
        refusal = _refusal(session, workflow_class, references, lambda _, statement: statement)
        if refusal is not None:
            raise refusal


def _reference_to(hero: object | None, session: Session) -> _Reference:
    return _NOBODY if hero is None else heroes.reference_to_stay(hero, session)


def _draft(
    definition: WorkflowDefinition,
    reference: _Reference,
    *,
    allow_multiple: bool,
    options: Mapping[str, Any],
    now: datetime,
) -> WorkflowRow:
    hero_type, hero_id = reference
    workflow = new_workflow(
        type=definition.name,
        hero_type=hero_type,
        hero_id=hero_id,
        allow_multiple=allow_multiple,
        details={"job_options": dict(options)} if options else None,
    )
    first = definition.steps.first()
    if first is None:
        move_workflow(workflow, WorkflowState.FINISHED, now=now)
    else:
        workflow.change(next_step_name=first.name)
    return workflow


def _insert(session: Session, workflow: WorkflowRow, execution: ExecutionRow | None, *, now: datetime) -> bool:
    if execution is None:
        return insert_unless_taken(session, workflow, now=now)
    return insert_both_unless_taken(session, workflow, execution, link="workflow_id", now=now)


def _inserted(
    session: Session,
    workflow_class: type[Any],
    references: Sequence[_Reference],
    drafts: Callable[[], list[WorkflowRow]],
    *,
    now: datetime,
) -> list[WorkflowRow]:
    for _ in range(MAX_RACES):
        rows = drafts()
        try:
            with savepoint(session):
                insert_all(session, rows, now=now)
        except IntegrityError as error:
            refusal = _refusal(session, workflow_class, references, current_shared)
            if refusal is not None:
                raise refusal from error
            continue
        return rows
    raise InvalidStateError(
        f"Cannot create {len(references)} {workflow_class.definition.name}: at each of {MAX_RACES} attempts another one"
        f" was there and had ended when it was looked for. Try again."
    )


def _refusal(
    session: Session,
    workflow_class: type[Any],
    references: Sequence[_Reference],
    reading: Callable[[Session, Select[Any]], Select[Any]],
) -> WorkflowAlreadyOngoing | None:
    """Say which one is in the way; None when it has ended meanwhile."""
    for start in range(0, len(references), MAX_IDS):
        looked_for = set(references[start : start + MAX_IDS])
        of_heroes = workflows.c.hero_id.in_([hero_id for _, hero_id in looked_for if hero_id is not None])
        of_any = or_(of_heroes, workflows.c.hero_id.is_(None)) if _NOBODY in looked_for else of_heroes
        for other in session.execute(reading(session, _ongoing(workflow_class, of_any))).scalars():
            reference = (other.hero_type, other.hero_id)
            if reference in looked_for:
                return WorkflowAlreadyOngoing(workflow_class.definition.name, _named(reference), other)
    return None


def _announced(runtime: Runtime, session: Session, workflow_class: type[Any], workflow: WorkflowRow) -> Any:
    facts = {"workflow_id": workflow.id, "workflow_class": workflow_class.definition.name}
    of_hero = {"hero_type": workflow.hero_type, "hero_id": workflow.hero_id}
    announce_after_commit(runtime, session, events.workflow_created, **facts, **of_hero)
    return instance_of(session, workflow_class, workflow)


def _find_ongoing(session: Session, workflow_class: type[Any], hero: object | None) -> Any | None:
    session.flush()
    hero_type, hero_id = heroes.reference(hero, session) if hero is not None else (None, None)
    # A plain read: to lock what is not there yet would lock a gap of MySQL's index, which the insert then waits for.
    return session.execute(_the_ongoing_one(workflow_class, hero_type, hero_id)).scalar_one_or_none()


def _the_ongoing_one(workflow_class: type[Any], hero_type: str | None, hero_id: str | None) -> Select[Any]:
    """The workflow that holds the slot of this class and hero."""
    of_hero = workflows.c.hero_id.is_(None) if hero_id is None else workflows.c.hero_id == hero_id
    of_type = true() if hero_type is None else workflows.c.hero_type == hero_type
    return _ongoing(workflow_class, of_hero, of_type).limit(1)


def _ongoing(workflow_class: type[Any], *where: ColumnElement[bool]) -> Select[Any]:
    """Those of the class that keep a second one of their hero from being created."""
    holds_slot = (
        workflows.c.type.in_(workflow_class.definition.stored_names),
        workflows.c.state.in_(ONGOING_WORKFLOW_STATES),
        workflows.c.allow_multiple.is_(False),
    )
    return select(workflow_class).where(*holds_slot, *where).execution_options(populate_existing=True)


def _named(reference: _Reference) -> str:
    hero_type, hero_id = reference
    return "no hero" if hero_type is None else f"{hero_type} {hero_id}"
