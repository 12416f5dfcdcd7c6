"""New workflows: the row, its first execution, and the rule of one ongoing workflow a class and hero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.orm import Session

from flask_geneva import events
from flask_geneva.definition.job_options import read_own_job_options
from flask_geneva.engine.outbox import announce_after_commit
from flask_geneva.engine.runtime import Runtime
from flask_geneva.engine.scheduling import next_execution, send
from flask_geneva.engine.transactions import current_shared
from flask_geneva.errors import HeroMissing, InvalidStateError, WorkflowAlreadyOngoing
from flask_geneva.records import heroes
from flask_geneva.records.instances import instance_of
from flask_geneva.records.saving import insert_unless_taken, save
from flask_geneva.records.tables import workflows
from flask_geneva.records.transitions import move_workflow, new_workflow
from flask_geneva.states import ONGOING_WORKFLOW_STATES, WorkflowState

MAX_RACES = 5


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
    if hero is None and not definition.may_proceed_without_hero:
        raise HeroMissing(definition.name)
    options = read_own_job_options(job_options, where=f"{definition.name}.create")
    session.flush()
    hero_type, hero_id = heroes.reference_to_stay(hero, session) if hero is not None else (None, None)
    now = runtime.now()
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
    if not insert_unless_taken(session, workflow, now=now):
        holder = current_shared(session, _the_ongoing_one(workflow_class, hero_type, hero_id))
        other = session.execute(holder).scalar_one_or_none()
        raise WorkflowAlreadyOngoing(definition.name, _named(hero_type, hero_id), other)
    if first is not None:
        execution = next_execution(workflow, first, now=now)
        save(session, execution, now=now)
        send(runtime, session, workflow, execution, now=now)
    facts = {"workflow_id": workflow.id, "workflow_class": workflow.type}
    announce_after_commit(runtime, session, events.workflow_created, **facts, hero_type=hero_type, hero_id=hero_id)
    return instance_of(session, workflow_class, workflow)


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


def _find_ongoing(session: Session, workflow_class: type[Any], hero: object | None) -> Any | None:
    session.flush()
    hero_type, hero_id = heroes.reference(hero, session) if hero is not None else (None, None)
    # A plain read: to lock what is not there yet would lock a gap of MySQL's index, which the insert then waits for.
    return session.execute(_the_ongoing_one(workflow_class, hero_type, hero_id)).scalar_one_or_none()


def _the_ongoing_one(workflow_class: type[Any], hero_type: str | None, hero_id: str | None) -> Select[Any]:
    """The workflow that holds the slot of this class and hero."""
    where: list[ColumnElement[bool]] = [
        workflows.c.type == workflow_class.definition.name,
        workflows.c.state.in_(ONGOING_WORKFLOW_STATES),
        workflows.c.allow_multiple.is_(False),
        workflows.c.hero_id.is_(None) if hero_id is None else workflows.c.hero_id == hero_id,
    ]
    if hero_type is not None:
        where.append(workflows.c.hero_type == hero_type)
    return select(workflow_class).where(*where).limit(1).execution_options(populate_existing=True)


def _named(hero_type: str | None, hero_id: str | None) -> str:
    return "no hero" if hero_type is None else f"{hero_type} {hero_id}"
