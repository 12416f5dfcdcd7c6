"""Code against rows in flight: what a deploy would strand, what is broken, and which gravestones can go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, exists, func, select
from sqlalchemy.orm import Session

from flask_geneva.definition.steps import StepDefinition
from flask_geneva.engine.runtime import Runtime
from flask_geneva.insights.code_checking import named_by_path
from flask_geneva.insights.findings import Finding, Report
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
    places = list(_merged(runtime, (_Place(*row) for row in session.execute(_places()))))
    problems = [*_stranded(places, classes), *_broken(session)]
    advice = [
        *_gravestones(places, classes),
        *_at_numbered_steps(places, classes),
        *_former_names(session, classes),
        *named_by_path(classes),
    ]
    return Report(problems=tuple(problems), advice=tuple(advice))


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


def _merged(runtime: Runtime, places: Iterable[_Place]) -> Iterator[_Place]:
    """Count the rows that a class has under its former names among its own."""
    found: dict[tuple[str, str | None], list[_Place]] = {}
    for place in places:
        found.setdefault((runtime.name_of(place.type), place.step_name), []).append(place)
    for (name, step_name), each in found.items():
        yield _Place(name, step_name, sum(place.count for place in each), min(place.first for place in each))


def _stranded(places: list[_Place], classes: dict[str, type[Any]]) -> Iterator[Finding]:
    for place in places:
        declared = classes.get(place.type)
        if declared is None:
            text = (
                f"{place.who} {place.stands} at {place.step_name or 'no step'}, and no class of that name is declared. "
                f"Import its module in the application factory, declare it again, name it in the '__former_names__' of "
                f"the class that has taken its place, or cancel what is left."
            )
            yield _finding("unknown_class", text, place)
        elif place.step_name is not None and _step_at(place, classes) is None:
            numbers = _lost_number(place.step_name, declared)
            text = (
                f"{place.who} {place.stands} at step '{place.step_name}', which the class does not define{numbers}. "
                f"Declare '{place.step_name} = removed_step()' where it stood, or move them with "
                f"'flask geneva resume-at'."
            )
            yield _finding("unknown_step", text, place)


def _lost_number(step_name: str, declared: type[Any]) -> str:
    """Say so when the name is a number of a list that has become shorter."""
    name, _, number = step_name.rpartition("_")
    lists = {step.numbered_in for step in declared.definition.steps.values()}
    if not number.isdigit() or name not in lists:
        return ""
    return f"; the steps of its list '{name}' are named by their place, and the list has become shorter"


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
    """Which are needed and which can go; one that is inherited is one, which its place in the source tells."""
    heirs: dict[tuple[str, str], list[str]] = {}
    for name, declared in classes.items():
        for step in declared.definition.steps.removed:
            heirs.setdefault((step.source, step.name), []).append(name)
    for (source, step_name), names in heirs.items():
        held = [place for place in places if place.type in names and place.step_name == step_name]
        for place in held:
            text = f"{place.who} {place.stands} at the removed step '{step_name}': {source} must stay for now."
            yield _finding("gravestone_in_use", text, place)
        if not held:
            text = f"Nothing stands at the removed step '{step_name}' of {names[0]}: {source} can go."
            yield Finding(kind="gravestone_can_go", text=text, class_name=names[0], step_name=step_name)


def _at_numbered_steps(places: list[_Place], classes: dict[str, type[Any]]) -> Iterator[Finding]:
    """A number that has come to mean another step cannot be told from one that has not; where it matters can."""
    for place in places:
        step = _step_at(place, classes)
        if step is not None and step.numbered_in is not None:
            text = (
                f"{place.who} {place.stands} at step '{step.name}', which is named by its place in the list "
                f"'{step.numbered_in}' ({step.source}). If this deploy puts a step before it or takes one out, give "
                f"the steps the names that they had, with name=."
            )
            yield _finding("at_numbered_step", text, place)


def _former_names(session: Session, classes: dict[str, type[Any]]) -> Iterator[Finding]:
    for name, declared in classes.items():
        for former in declared.definition.former_names:
            if session.execute(select(_W.id).where(_W.type == former).limit(1)).first() is None:
                text = (
                    f"No row has the name '{former}' any more: it can be taken out of the '__former_names__' of {name}."
                )
                yield Finding(kind="former_name_can_go", text=text, class_name=name)


def _step_at(place: _Place, classes: dict[str, type[Any]]) -> StepDefinition | None:
    declared = classes.get(place.type)
    found: StepDefinition | None = None
    if declared is not None and place.step_name is not None:
        found = declared.definition.steps.get(place.step_name)
    return found


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
