"""Whatever happens to a resumable step and to its table meanwhile, each record that it meets is met once, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from flask import Flask
from hypothesis import HealthCheck, given, settings
from sqlalchemy import delete, select

from flask_geneva import Geneva, IterableStep
from flask_geneva.testing import run_iterations
from tests.engine.elsewhere import Ledger, Plan, press
from tests.engine.flows import boom, reload
from tests.harness.models import db, write_down
from tests.housekeeping.workflows import begin_by_hand
from tests.iteration.flows import Parcel, begun, parcels_of, run_all

PLACES = range(12)

Happening = tuple[str, int]
HAPPENINGS = st.lists(
    st.tuples(st.sampled_from(["go on", "pause", "add", "delete", "fail", "die"]), st.sampled_from(PLACES)),
    max_size=12,
)


class Story:
    """One workflow over parcels, what happened to it, and what it must have met in the end."""

    def __init__(self, extension: Geneva, plan: Plan, places: set[int], pages: tuple[int, int]) -> None:
        self.extension = extension
        self.page_size, self.pace = pages
        self.failing_at: int | None = None
        self.workflow = begun(plan, self.body)
        self.order_id = self.workflow.hero.id
        self.there = set()
        self.met: list[int] = []
        for place in sorted(places):
            self.add(place)

    def body(self, running: Any, it: IterableStep) -> None:
        parcels = it.iterate_over_records(
            parcels_of(running.hero),
            cursor=(Parcel.order_id, Parcel.position),
            batch_size=self.page_size,
            checkpoint_every=self.pace,
        )
        for parcel in parcels:
            if parcel.position == self.failing_at:
                self.failing_at = None
                boom()
            write_down(running, str(parcel.position))

    @property
    def cursor(self) -> int:
        """The place behind which the step goes on."""
        found = [each.cursor_value for each in reload(self.workflow).execution_history]
        stored = [cursor[1] for cursor in found if cursor is not None]
        return stored[-1] if stored else -1

    def add(self, place: int) -> None:
        if place in self.there:
            return
        db.session.add(Parcel(order_id=self.order_id, position=place, code=f"{self.order_id}-{place}"))
        db.session.commit()
        self.there.add(place)

    def delete(self, place: int) -> None:
        db.session.execute(delete(Parcel).where(Parcel.order_id == self.order_id, Parcel.position == place))
        db.session.commit()
        self.there.discard(place)

    def happen(self, what: str, place: int) -> None:
        if reload(self.workflow).next_step_name != "one":
            return
        if what == "go on":
            self.go_on(1 + place % 3)
        elif what == "pause":
            press(self.workflow.id, "pause")
            press(self.workflow.id, "resume")
        elif what in ("add", "delete"):
            getattr(self, what)(place)
        elif what == "fail":
            self.failing_at = place
        else:
            begin_by_hand(reload(self.workflow), job_id="nobody")
            self.extension.run_housekeeping()
            self.resume_if_paused()

    def go_on(self, iterations: int) -> None:
        before = self.cursor
        run_iterations(self.workflow, iterations, raise_errors=False)
        self.resume_if_paused()
        if self.workflow.next_step_name == "one":
            self.met += sorted(place for place in self.there if before < place <= self.cursor)
        else:
            self.met += sorted(place for place in self.there if place > before)

    def resume_if_paused(self) -> None:
        """As an operator does after an error, and after three deaths in a row."""
        if reload(self.workflow).state == "paused":
            press(self.workflow.id, "resume")

    def end(self) -> list[str]:
        """Let it run to its end; the marks that must be there then."""
        while reload(self.workflow).next_step_name == "one":
            self.go_on(3)
        run_all(self.workflow)
        return [*map(str, self.met), "two"]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    places=st.sets(st.sampled_from(PLACES)),
    happenings=HAPPENINGS,
    pages=st.tuples(st.integers(1, 4), st.integers(1, 3)),
)
def test_each_record_is_met_once_in_order(
    app: Flask,
    extension: Geneva,
    plan: Plan,
    ledger: Ledger,
    places: set[int],
    happenings: list[Happening],
    pages: tuple[int, int],
) -> None:
    story = Story(extension, plan, places, pages)

    for what, place in happenings:
        story.happen(what, place)
    expected = story.end()

    assert ledger(story.workflow) == expected
    assert story.workflow.state == "finished"
    assert story.workflow.execution_history[-1].outcome == "success"


def test_the_stories_are_told_of_real_rows(
    app: Flask, extension: Geneva, plan: Plan, ledger: Callable[..., Any]
) -> None:
    story = Story(extension, plan, {1, 3, 5}, (2, 1))
    story.happen("go on", 0)
    story.happen("add", 0)
    story.happen("add", 4)
    story.happen("delete", 3)
    story.happen("fail", 5)
    story.happen("die", 0)

    assert story.end() == ["1", "4", "5", "two"]
    assert ledger(story.workflow) == ["1", "4", "5", "two"]
    assert len(db.session.scalars(select(Parcel).where(Parcel.order_id == story.order_id)).all()) == 4
