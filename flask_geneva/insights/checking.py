"""Code against rows in flight: what a deploy would strand, what is broken, and which gravestones can go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, exists, func, select
from sqlalchemy.orm import Session

from flask_geneva.engine.runtime import Runtime
from flask_geneva.insights.listing import declared_classes
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.states import (
    ONGOING_WORKFLOW_STATES,
    OPEN_STEP_STATES,
    RUNNABLE_WORKFLOW_STATES,
)

# Ids go into the statement one by one, and databases take no more than some ten thousand.
MAX_IDS = 1000

_W, _E = workflows.c, step_executions.c


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that does not fit, or that can be tidied up; ``workflow_id`` is the oldest of ``count`` workflows."""

    kind: str
    text: str
    class_name: str
    step_name: str | None = None
    count: int = 0
    workflow_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """What must be mended before a deploy, and advice that may be followed or not."""

    problems: tuple[Finding, ...]
    advice: tuple[Finding, ...]


@dataclass(frozen=True)
class _Place:
    """Where ongoing workflows of one class stand."""

    type: str
    step_name: str | None
    count: int
    first: int

    @property
    def who(self) -> str:
        return f"{_workflows(self.count)} of {self.type} (such as #{self.first})"

    @property
    def stands(self) -> str:
        return "stands" if self.count == 1 else "stand"


def check(session: Session, runtime: Runtime) -> Report:
    """Compare the code that is loaded with the rows in flight."""
    classes = declared_classes(runtime)
    places = [_Place(*row) for row in session.execute(_places())]
    problems = [*_stranded(places, classes), *_broken(session)]
    return Report(problems=tuple(problems), advice=tuple(_gravestones(places, classes)))


def _places() -> Select[Any]:
    standing = func.coalesce(_E.step_name, _W.next_step_name)
    is_open = and_(_E.workflow_id == _W.id, _E.state.in_(OPEN_STEP_STATES))
    return (
        select(_W.type, standing, func.count(_W.id.distinct()), func.min(_W.id))
        .select_from(workflows.outerjoin(step_executions, is_open))
        .where(_W.state.in_(ONGOING_WORKFLOW_STATES))
        .group_by(_W.type, standing)
        .order_by(_W.type, standing)
    )


def _stranded(places: list[_Place], classes: dict[str, type[Any]]) -> Iterator[Finding]:
    for place in places:
        declared = classes.get(place.type)
        if declared is None:
            text = (
                f"{place.who} {place.stands} at {place.step_name or 'no step'}, and no class of that name is declared. "
                f"Import its module in the application factory, declare it again, or cancel what is left."
            )
            yield _finding("unknown_class", text, place)
        elif place.step_name is not None and place.step_name not in declared.definition.steps:
            text = (
                f"{place.who} {place.stands} at step '{place.step_name}', which the class does not define. Declare "
                f"'{place.step_name} = removed_step()' where it stood, or move them with 'flask geneva resume-at'."
            )
            yield _finding("unknown_step", text, place)


def _broken(session: Session) -> Iterator[Finding]:
    for place in _under_ended(session):
        text = f"{place.who} ended and have an open step. Run 'flask geneva housekeeping', which closes it."
        yield _finding("open_step_under_ended_workflow", text, place)
    for place in _without_open_step(session):
        text = f"{place.who} are ongoing and have no open step. Run 'flask geneva housekeeping', which mends that."
        yield _finding("ongoing_without_open_step", text, place)


def _under_ended(session: Session) -> Iterator[_Place]:
    """Ended workflows that have an open step. The open steps are what is read, since most workflows have ended."""
    ongoing = exists().where(_W.id == _E.workflow_id, _W.state.in_(ONGOING_WORKFLOW_STATES))
    strays = select(_E.workflow_id).distinct().where(_E.state.in_(OPEN_STEP_STATES), ~ongoing)
    ids = list(session.execute(strays).scalars())
    found: dict[str, list[int]] = {}
    for start in range(0, len(ids), MAX_IDS):
        for row in session.execute(select(_W.id, _W.type).where(_W.id.in_(ids[start : start + MAX_IDS]))):
            found.setdefault(row.type, []).append(row.id)
    return (_Place(name, None, len(found[name]), min(found[name])) for name in sorted(found))


def _without_open_step(session: Session) -> Iterator[_Place]:
    has_open = exists().where(_E.workflow_id == _W.id, _E.state.in_(OPEN_STEP_STATES))
    broken = select(_W.type, func.count(_W.id), func.min(_W.id)).where(
        _W.state.in_(RUNNABLE_WORKFLOW_STATES), ~has_open
    )
    for name, count, first in session.execute(broken.group_by(_W.type).order_by(_W.type)):
        yield _Place(name, None, count, first)


def _gravestones(places: list[_Place], classes: dict[str, type[Any]]) -> Iterator[Finding]:
    """Those that nothing stands at; one that is inherited is one gravestone, which its place in the source tells."""
    heirs: dict[tuple[str, str], list[str]] = {}
    for name, declared in classes.items():
        for step in declared.definition.steps.removed:
            heirs.setdefault((step.source, step.name), []).append(name)
    stood_at = {(place.type, place.step_name) for place in places}
    for (source, step_name), names in heirs.items():
        if not any((name, step_name) in stood_at for name in names):
            text = f"Nothing stands at the removed step '{step_name}' of {names[0]}: {source} can go."
            yield Finding(kind="gravestone_can_go", text=text, class_name=names[0], step_name=step_name)


def _finding(kind: str, text: str, place: _Place) -> Finding:
    return Finding(
        kind=kind,
        text=text,
        class_name=place.type,
        step_name=place.step_name,
        count=place.count,
        workflow_id=place.first,
    )


def _workflows(count: int) -> str:
    return f"{count} workflow{'' if count == 1 else 's'}"
