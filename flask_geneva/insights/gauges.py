"""The gauges: how many workflows there are of each class and state, and how many steps wait, or wait too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, case, func, select
from sqlalchemy.orm import Session

from flask_geneva.engine.runtime import Runtime
from flask_geneva.insights.listing import declared_classes
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.states import ONGOING_WORKFLOW_STATES, RUNNABLE_WORKFLOW_STATES, StepState, WorkflowState

_W, _E = workflows.c, step_executions.c


@dataclass(frozen=True, kw_only=True)
class ClassGauges:
    """The gauges of one workflow class.

    Of an ended workflow no step waits. ``waiting_overdue`` counts steps that are parked for longer than
    ``GENEVA_WAITING_VISIBILITY_THRESHOLD`` (None where that is None), ``overdue_scheduled`` those that
    are due for longer than ``GENEVA_STUCK_SCHEDULED_THRESHOLD`` in a workflow that nobody paused,
    ``oldest_overdue_age_seconds`` for how long the oldest of these is due.
    """

    workflows: Mapping[WorkflowState, int]
    waiting: int
    waiting_overdue: int | None
    overdue_scheduled: int
    oldest_overdue_age_seconds: float

    @property
    def paused_ratio(self) -> float:
        """The share of the class's workflows, in whatever state, that are paused."""
        total = sum(self.workflows.values())
        return self.workflows[WorkflowState.PAUSED] / total if total else 0.0


@dataclass(frozen=True, kw_only=True)
class Gauges:
    """The gauges of every class that the code declares or that has rows, at one moment."""

    classes: Mapping[str, ClassGauges]

    @property
    def total(self) -> ClassGauges:
        """The same over all classes."""
        return _together(list(self.classes.values()))


def read_gauges(session: Session, runtime: Runtime) -> Gauges:
    """Read the gauges; a state or a class without rows is a zero, never missing."""
    now = runtime.now()
    # Of the rows and not of their ids, which are not in the index of types and states.
    counts = session.execute(select(_W.type, _W.state, func.count()).group_by(_W.type, _W.state)).all()
    open_steps = {row.type: row for row in session.execute(_open_steps(runtime, now))}
    by_name: dict[str, dict[WorkflowState, int]] = {name: {} for name in declared_classes(runtime)}
    for name, state, number in counts:
        by_name.setdefault(name, {})[state] = number
    has_threshold = runtime.settings.waiting_visibility_threshold is not None
    by_class: dict[str, list[ClassGauges]] = {}
    for name, states in by_name.items():
        stored = _gauges(states, open_steps.get(name), has_threshold=has_threshold, now=now)
        by_class.setdefault(runtime.name_of(name), []).append(stored)
    return Gauges(classes={name: _together(by_class[name]) for name in sorted(by_class)})


def _open_steps(runtime: Runtime, now: datetime) -> Any:
    settings = runtime.settings
    is_waiting = _E.state == StepState.WAITING
    threshold = settings.waiting_visibility_threshold
    is_long_parked = is_waiting if threshold is None else and_(is_waiting, _E.waiting_since < now - threshold)
    is_overdue = and_(
        _E.state == StepState.SCHEDULED,
        _E.scheduled_for <= now - settings.stuck_scheduled_threshold,
        _W.state.in_(RUNNABLE_WORKFLOW_STATES),
    )
    return (
        select(
            _W.type,
            _how_many(is_waiting).label("waiting"),
            _how_many(is_long_parked).label("long_parked"),
            _how_many(is_overdue).label("overdue"),
            func.min(case((is_overdue, _E.scheduled_for))).label("oldest"),
        )
        .join(workflows, _W.id == _E.workflow_id)
        # Without the second condition the join would read the workflows that ended as well, which may be most.
        .where(_E.state.in_((StepState.WAITING, StepState.SCHEDULED)), _W.state.in_(ONGOING_WORKFLOW_STATES))
        .group_by(_W.type)
    )


def _how_many(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


def _gauges(
    counts: Mapping[WorkflowState, int], steps: Row[Any] | None, *, has_threshold: bool, now: datetime
) -> ClassGauges:
    oldest = None if steps is None else steps.oldest
    return ClassGauges(
        workflows={state: counts.get(state, 0) for state in WorkflowState},
        waiting=0 if steps is None else int(steps.waiting),
        waiting_overdue=(0 if steps is None else int(steps.long_parked)) if has_threshold else None,
        overdue_scheduled=0 if steps is None else int(steps.overdue),
        oldest_overdue_age_seconds=0.0 if oldest is None else (now - oldest).total_seconds(),
    )


def _together(each: Sequence[ClassGauges]) -> ClassGauges:
    overdue = [gauges.waiting_overdue for gauges in each if gauges.waiting_overdue is not None]
    return ClassGauges(
        workflows={state: sum(gauges.workflows[state] for gauges in each) for state in WorkflowState},
        waiting=sum(gauges.waiting for gauges in each),
        waiting_overdue=sum(overdue) if overdue or not each else None,
        overdue_scheduled=sum(gauges.overdue_scheduled for gauges in each),
        oldest_overdue_age_seconds=max((gauges.oldest_overdue_age_seconds for gauges in each), default=0.0),
    )
