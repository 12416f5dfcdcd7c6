"""The read-only queries behind the command line, the metrics and the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from flask import Flask
from sqlalchemy import delete, update

from flask_geneva import Workflow, removed_step, step
from flask_geneva.engine.runtime import Runtime
from flask_geneva.insights.checking import check
from flask_geneva.insights.gauges import ClassGauges, read_gauges
from flask_geneva.insights.listing import Selection, count_of, ids_of, known_class_names, known_step_names, page_of
from flask_geneva.insights.schema import missing_from
from flask_geneva.insights.timelines import timeline_of
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.testing import perform_next_step, speedrun
from tests.harness.counting import Traffic
from tests.harness.models import Order, StrHero, db


class TeaRound(Workflow[Any]):
    """Boils, waits for a cup, pours."""

    @step
    def boil(self) -> None:
        pass

    @step(wait_for="cup")
    def pour(self) -> None:
        pass

    stir = removed_step()


class LateTeaRound(TeaRound):
    """Inherits the gravestone."""


@pytest.fixture
def runtime(app: Flask) -> Runtime:
    """The engine of the application."""
    runtime: Runtime = app.extensions["geneva"].runtime
    return runtime


@pytest.fixture
def brew(app: Flask) -> Callable[..., Any]:
    """Creates a workflow for a hero of its own, and performs so many of its steps."""

    def create(cls: type[TeaRound] = TeaRound, *, steps: int = 0, hero: Any = None) -> Any:
        hero = hero or Order()
        db.session.add(hero)
        db.session.flush()
        workflow = cls.create(hero=hero)
        db.session.commit()
        for _ in range(steps):
            perform_next_step(workflow)
        return workflow

    return create


def gauges_of(runtime: Runtime, name: str = "TeaRound") -> ClassGauges:
    return read_gauges(db.session(), runtime).classes[name]


def move(workflow: Any, **values: Any) -> None:
    """Write to the row of a workflow, behind the engine's back."""
    db.session.execute(update(workflows).where(workflows.c.id == workflow.id).values(**values))
    db.session.commit()


# -- lists


def test_a_page_begins_where_the_one_before_ended(brew: Callable[..., Any]) -> None:
    ids = [brew().id for _ in range(5)]

    first = page_of(db.session(), Selection(), limit=2)
    second = page_of(db.session(), Selection(), before_id=first[-1].id, limit=2)

    assert [each.id for each in first + second] == ids[:0:-1]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_pages_of_old_ones_go_by_the_moment_of_their_creation(brew: Callable[..., Any], is_deleted: bool) -> None:
    now = datetime.now(UTC)
    brewed = [brew() for _ in range(6)]
    for workflow, days in zip(brewed, (9, 8, 8, 8, 7, 0), strict=True):
        move(workflow, created_at=now - timedelta(days=days))
    ids = [workflow.id for workflow in brewed]
    selection = Selection(created_before=now - timedelta(days=1))

    first = page_of(db.session(), selection, limit=2)
    if is_deleted:
        db.session.execute(delete(step_executions).where(step_executions.c.workflow_id == first[-1].id))
        db.session.execute(delete(workflows).where(workflows.c.id == first[-1].id))
        db.session.commit()
    second = page_of(db.session(), selection, before_id=first[-1].id, limit=2)
    third = page_of(db.session(), selection, before_id=second[-1].id, limit=2)

    assert [each.id for each in first + second + third] == ids[4::-1]


def test_a_page_costs_the_same_whatever_it_holds(brew: Callable[..., Any], counting: Callable[[], Any]) -> None:
    for _ in range(4):
        brew(steps=2)

    traffic: Traffic
    with counting() as traffic:
        assert len(page_of(db.session(), Selection())) == 4

    assert traffic.statements == 2


def test_a_hero_is_found_by_type_and_id_whatever_is_in_them(brew: Callable[..., Any]) -> None:
    workflow = brew(hero=StrHero(code="a:b:c"))
    brew()

    assert ids_of(db.session(), Selection(hero="StrHero:a:b:c")) == [workflow.id]
    assert ids_of(db.session(), Selection(hero="StrHero:a")) == []


def test_a_search_finds_a_workflow_by_its_id_and_by_its_heros(brew: Callable[..., Any]) -> None:
    workflow = brew(hero=StrHero(code="4711-" + "x" * 40))

    assert ids_of(db.session(), Selection(search=f" #{workflow.id} "))[:1] == [workflow.id]
    assert ids_of(db.session(), Selection(search=workflow.hero_id)) == [workflow.id]
    assert ids_of(db.session(), Selection(search="StrHero:" + workflow.hero_id)) == [workflow.id]
    assert ids_of(db.session(), Selection(search="9" * 30)) == []


def test_a_workflow_that_stands_nowhere_is_listed_without_a_step(brew: Callable[..., Any]) -> None:
    workflow = brew()
    workflow.signal("cup")
    speedrun(workflow)

    (each,) = page_of(db.session(), Selection())

    assert (each.state, each.step_name, each.step_state) == ("finished", None, None)


def test_a_selection_is_counted(brew: Callable[..., Any]) -> None:
    brew()
    brew(steps=2)

    assert count_of(db.session(), Selection()) == 2
    assert count_of(db.session(), Selection(step_name="pour")) == 1
    assert count_of(db.session(), Selection(created_before=datetime(2020, 1, 1, tzinfo=UTC))) == 0


def test_classes_and_steps_are_known_from_the_code_and_from_rows(brew: Callable[..., Any], runtime: Runtime) -> None:
    move(brew(), type="GoneRound", next_step_name="sip")

    assert {"TeaRound", "GoneRound"} <= set(known_class_names(db.session(), runtime))
    assert "Workflow" not in known_class_names(db.session(), runtime)
    assert known_step_names(db.session(), runtime, "TeaRound") == ["boil", "pour", "stir"]
    assert known_step_names(db.session(), runtime, "GoneRound") == ["sip"]


# -- timelines


def test_a_timeline_has_attempts_and_signals_in_the_order_in_which_they_came(brew: Callable[..., Any]) -> None:
    workflow = brew(steps=2)
    workflow.signal("cup", {"size": 3})
    db.session.commit()

    timeline = timeline_of(db.session(), workflow.id)

    assert timeline is not None
    names = [getattr(entry, "step_name", None) or f"signal {entry.name}" for entry in timeline.entries]  # type: ignore[union-attr]
    assert names == ["boil", "pour", "signal cup"]


@pytest.mark.parametrize("workflow_id", [999_999, 0, -1, 2**63])
def test_there_is_no_timeline_of_what_is_not_there(app: Flask, workflow_id: int) -> None:
    assert timeline_of(db.session(), workflow_id) is None


# -- gauges


def test_a_state_without_workflows_is_a_zero(brew: Callable[..., Any], runtime: Runtime) -> None:
    # HSK-29 HSK-30 B-49
    brew()

    assert gauges_of(runtime).workflows == {"ready": 1, "performing": 0, "paused": 0, "finished": 0, "canceled": 0}


def test_a_class_without_workflows_is_all_zeroes(app: Flask, runtime: Runtime) -> None:
    # B-49
    gauges = gauges_of(runtime, "LateTeaRound")

    assert sum(gauges.workflows.values()) == gauges.waiting == gauges.overdue_scheduled == 0
    assert gauges.oldest_overdue_age_seconds == gauges.paused_ratio == 0.0


@pytest.mark.parametrize(
    ("states", "ratio"),
    [(["paused", "ready", "ready", "ready"], 0.25), (["paused", "paused"], 1.0), (["ready"], 0.0), (["finished"], 0.0)],
)
def test_the_paused_ratio_is_of_all_workflows(
    brew: Callable[..., Any], runtime: Runtime, states: list[str], ratio: float
) -> None:
    # HSK-31
    for state in states:
        move(brew(), state=state)

    assert gauges_of(runtime).paused_ratio == ratio


def test_parked_steps_are_counted_and_those_parked_too_long(brew: Callable[..., Any], runtime: Runtime) -> None:
    # HSK-32 HSK-33 CFG-08
    brew(steps=2)
    old = brew(steps=2)
    long_ago = datetime.now(UTC) - timedelta(days=8)
    db.session.execute(
        update(step_executions).where(step_executions.c.workflow_id == old.id).values(waiting_since=long_ago)
    )
    db.session.commit()

    total = read_gauges(db.session(), runtime).total
    assert (gauges_of(runtime).waiting, gauges_of(runtime).waiting_overdue) == (2, 1)
    assert (total.waiting, total.waiting_overdue) == (2, 1)


def test_without_a_threshold_nothing_is_parked_too_long(build_app: Callable[..., Flask]) -> None:
    # HSK-34
    app = build_app(GENEVA_WAITING_VISIBILITY_THRESHOLD=None)

    with app.app_context():
        gauges = read_gauges(db.session(), app.extensions["geneva"].runtime)

    assert gauges.classes["TeaRound"].waiting_overdue is None
    assert gauges.total.waiting_overdue is None


def test_a_due_step_that_nobody_takes_is_overdue(brew: Callable[..., Any], runtime: Runtime) -> None:
    brew()
    paused = brew()
    paused.pause()
    db.session.commit()

    assert gauges_of(runtime).overdue_scheduled == 0
    with time_machine.travel(timedelta(minutes=5)):
        gauges = gauges_of(runtime)

    assert gauges.overdue_scheduled == 1
    assert gauges.oldest_overdue_age_seconds == pytest.approx(300, abs=30)


def test_the_gauges_count_a_class_that_is_gone(brew: Callable[..., Any], runtime: Runtime) -> None:
    move(brew(), type="GoneRound")

    assert gauges_of(runtime, "GoneRound").workflows["ready"] == 1


# -- check


def problems(runtime: Runtime) -> list[tuple[str, str, str | None, int]]:
    return [(each.kind, each.class_name, each.step_name, each.count) for each in check(db.session(), runtime).problems]


def test_code_that_knows_every_row_has_no_problem(brew: Callable[..., Any], runtime: Runtime) -> None:
    brew()
    brew(steps=2)
    brew().pause()
    db.session.commit()

    assert problems(runtime) == []


def test_rows_of_a_class_or_at_a_step_that_the_code_has_not_are_problems(
    brew: Callable[..., Any], runtime: Runtime
) -> None:
    move(brew(), type="GoneRound")
    for _ in range(2):
        stranded = brew()
        stranded.pause()
        stranded.current_execution.step_name = "sip"
        db.session.commit()

    assert problems(runtime) == [("unknown_class", "GoneRound", "boil", 1), ("unknown_step", "TeaRound", "sip", 2)]


def test_a_paused_workflow_that_points_at_a_lost_step_is_a_problem(brew: Callable[..., Any], runtime: Runtime) -> None:
    # B-35 B-38
    workflow = brew()
    workflow.cancel()
    db.session.commit()
    move(workflow, state="paused", next_step_name="sip")

    assert problems(runtime) == [("unknown_step", "TeaRound", "sip", 1)]


def test_rows_of_workflows_that_have_ended_do_not_matter(brew: Callable[..., Any], runtime: Runtime) -> None:
    workflow = brew()
    workflow.cancel()
    db.session.commit()
    move(workflow, type="GoneRound")

    assert problems(runtime) == []


def test_broken_workflows_are_problems(brew: Callable[..., Any], runtime: Runtime) -> None:
    move(brew(), state="finished")
    lost = brew()
    lost.cancel()
    db.session.commit()
    move(lost, state="ready")

    assert problems(runtime) == [
        ("open_step_under_ended_workflow", "TeaRound", None, 1),
        ("ongoing_without_open_step", "TeaRound", None, 1),
    ]


def test_an_inherited_gravestone_can_go_when_nothing_stands_at_it_in_any_class(
    brew: Callable[..., Any], runtime: Runtime
) -> None:
    # REM-11 REM-13
    def gravestones() -> list[str]:
        return [
            each.step_name or ""
            for each in check(db.session(), runtime).advice
            if each.kind == "gravestone_can_go" and "TeaRound" in each.class_name
        ]

    assert gravestones() == ["stir"]

    workflow = brew(LateTeaRound)
    workflow.current_execution.step_name = "stir"
    db.session.commit()

    assert gravestones() == []


# -- schema


def test_nothing_is_missing_from_a_database_with_all_tables(app: Flask) -> None:
    with db.engine.connect() as connection:
        assert missing_from(connection, db.metadata) == []
