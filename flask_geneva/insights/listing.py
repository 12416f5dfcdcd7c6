"""Lists of workflows: which ones, and a page of them, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, func, or_, select
from sqlalchemy.orm import Session

from flask_geneva.engine.runtime import Runtime
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.states import ONGOING_WORKFLOW_STATES, OPEN_STEP_STATES, PendingRequest, StepState, WorkflowState

_W, _E = workflows.c, step_executions.c
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which workflows are meant; whatever is left out does not matter.

    ``hero`` is ``Type:id`` or an id alone, ``search`` the id of a workflow or of a hero, ``step_name`` the step that
    a workflow stands at; one that has ended stands at none, unless its state is asked for. ``former_names`` are those
    that the class had, under which rows may be stored.
    """

    states: Sequence[WorkflowState] = ()
    class_name: str | None = None
    former_names: Sequence[str] = ()
    step_name: str | None = None
    hero: str | None = None
    search: str | None = None
    created_before: datetime | None = None
    created_after: datetime | None = None

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """The same in SQL."""
        found: list[ColumnElement[bool]] = []
        states = self.states or (ONGOING_WORKFLOW_STATES if self.step_name is not None else ())
        if states:
            found.append(_W.state.in_(states))
        if self.class_name is not None:
            found.append(_W.type.in_((self.class_name, *self.former_names)))
        if self.step_name is not None:
            found.append(_W.next_step_name == self.step_name)
        if self.hero is not None:
            found.append(_of_hero(self.hero))
        if self.search:
            found.append(_like(self.search))
        return found + self._by_age()

    def in_states(self, states: Sequence[WorkflowState]) -> Selection:
        """Return the same selection for these states."""
        return replace(self, states=states)

    def still_has(self, state: WorkflowState, step_name: str | None) -> bool:
        """Whether a workflow that was in the selection is so in this state and at this step."""
        return (not self.states or state in self.states) and self.step_name in (None, step_name)

    def _by_age(self) -> list[ColumnElement[bool]]:
        before = [] if self.created_before is None else [_W.created_at < self.created_before]
        after = [] if self.created_after is None else [_W.created_at > self.created_after]
        return [*before, *after]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One workflow in a list, with the attempt that it stands at (None: it has none)."""

    id: int
    type: str
    hero_type: str | None
    hero_id: str | None
    state: WorkflowState
    step_name: str | None
    pending_request: PendingRequest | None
    created_at: datetime
    started_at: datetime | None
    transitioned_at: datetime | None
    step_state: StepState | None = None
    scheduled_for: datetime | None = None
    waiting_since: datetime | None = None
    deadline_at: datetime | None = None
    error_class_name: str | None = None
    error_message: str | None = None


def page_of(
    session: Session, selection: Selection, *, before_id: int | None = None, limit: int | None = 50
) -> list[Standing]:
    """Read a page of workflows, newest first; the next page is what is before the last one's id."""
    # In the order of the ids a list of old ones would pass over all that are newer.
    by_id = selection.created_before is None
    statement = select(workflows).where(*selection.conditions).limit(limit)
    statement = statement.order_by(_W.id.desc()) if by_id else statement.order_by(_W.created_at.desc(), _W.id.desc())
    if before_id is not None:
        statement = statement.where(_W.id < before_id if by_id else _created_before(before_id))
    rows = session.execute(statement).all()
    attempts = _newest_attempts(session, [row.id for row in rows])
    return [_standing(row, attempts.get(row.id)) for row in rows]


def count_of(session: Session, selection: Selection) -> int:
    """Count the workflows of a selection."""
    return session.execute(select(func.count(_W.id)).where(*selection.conditions)).scalar_one()


def ids_of(session: Session, selection: Selection) -> list[int]:
    """Read the ids of all workflows of a selection, oldest first."""
    return list(session.execute(select(_W.id).where(*selection.conditions).order_by(_W.id)).scalars())


def declared_classes(runtime: Runtime) -> dict[str, type[Any]]:
    """Return the workflow classes that this process has loaded, by name."""
    mapper = runtime.workflow_class.__mapper__
    classes = {str(each.polymorphic_identity): each.class_ for each in mapper.self_and_descendants}
    classes.pop(str(mapper.polymorphic_identity))
    return dict(sorted(classes.items()))


def of_class(name: str, runtime: Runtime) -> dict[str, Any]:
    """Return what a :class:`Selection` says of the class that has this name, or had it."""
    class_name, *former_names = runtime.names_of(name)
    return {"class_name": class_name, "former_names": former_names}


def known_class_names(session: Session, runtime: Runtime) -> list[str]:
    """Name the classes that the code declares or that rows have."""
    return sorted({*declared_classes(runtime), *map(runtime.name_of, _stored_class_names(session))})


def known_step_names(session: Session, runtime: Runtime, class_name: str | None = None) -> list[str]:
    """Name the steps, of one class or of all, that the code defines or that ongoing workflows stand at."""
    wanted = (
        declared_classes(runtime).values() if class_name is None else filter(None, [runtime.class_named(class_name)])
    )
    defined = {name for each in wanted for name in each.definition.steps}
    selection = Selection() if class_name is None else Selection(**of_class(class_name, runtime))
    stood_at = select(_W.next_step_name).distinct().where(_W.state.in_(ONGOING_WORKFLOW_STATES), *selection.conditions)
    return sorted(defined | {name for name in session.execute(stood_at).scalars() if name is not None})


def _stored_class_names(session: Session) -> Iterator[str]:
    """One look into the index for each name: DISTINCT would read all of it."""
    name = session.execute(select(func.min(_W.type))).scalar_one()
    while name is not None:
        yield name
        name = session.execute(select(func.min(_W.type)).where(_W.type > name)).scalar_one()


def _newest_attempts(session: Session, workflow_ids: Sequence[int]) -> dict[int, Row[Any]]:
    """The latest attempt of each workflow, without its cursor and its backtrace, which may be large."""
    if not workflow_ids:
        return {}
    newest = select(func.max(_E.id)).where(_E.workflow_id.in_(workflow_ids)).group_by(_E.workflow_id)
    columns = (
        _E.workflow_id,
        _E.step_name,
        _E.state,
        _E.scheduled_for,
        _E.waiting_since,
        _E.deadline_at,
        _E.error_class_name,
        _E.error_message,
    )
    rows: Sequence[Any] = session.execute(select(*columns).where(_E.id.in_(newest))).all()
    return {row.workflow_id: row for row in rows}


def _standing(row: Row[Any], attempt: Row[Any] | None) -> Standing:
    about = dict(
        id=row.id,
        type=row.type,
        hero_type=row.hero_type,
        hero_id=row.hero_id,
        state=row.state,
        step_name=row.next_step_name,
        pending_request=row.pending_request,
        created_at=row.created_at,
        started_at=row.started_at,
        transitioned_at=row.transitioned_at,
    )
    if attempt is None or not (attempt.state in OPEN_STEP_STATES or attempt.state is StepState.FAILED):
        return Standing(**about)
    is_waiting = attempt.state is StepState.WAITING
    return Standing(
        **{**about, "step_name": attempt.step_name},
        step_state=attempt.state,
        scheduled_for=attempt.scheduled_for,
        waiting_since=attempt.waiting_since if is_waiting else None,
        deadline_at=attempt.deadline_at if is_waiting else None,
        error_class_name=attempt.error_class_name,
        error_message=attempt.error_message,
    )


def _created_before(workflow_id: int) -> ColumnElement[bool]:
    """Created before that workflow, or at the same moment and with a smaller id.

    Where retention has deleted it meanwhile, its moment is that of the next one.
    """
    moments = select(_W.created_at).where(_W.id <= workflow_id).order_by(_W.id.desc()).limit(1)
    moment = moments.correlate(None).scalar_subquery()
    return and_(_W.created_at <= moment, or_(_W.created_at < moment, _W.id < workflow_id))


def _of_hero(text: str) -> ColumnElement[bool]:
    """Either half may have colons of its own, so each colon may be the one between type and id."""
    places = [place for place, character in enumerate(text) if character == ":"]
    if not places:
        return _W.hero_id == text
    return or_(*(and_(_W.hero_type == text[:place], _W.hero_id == text[place + 1 :]) for place in places))


def _like(search: str) -> ColumnElement[bool]:
    text = search.strip().removeprefix("#")
    by_hero = _of_hero(text)
    if text.isascii() and text.isdigit() and int(text) <= LARGEST_ID:
        return or_(_W.id == int(text), by_hero)
    return by_hero
