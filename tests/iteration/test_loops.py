"""The loops: over a sequence, over records, over batches; each checkpoints after its body."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, func, select, update

from flask_geneva import IterableStep, StepConfigurationError
from flask_geneva.engine import iteration
from flask_geneva.testing import assert_cursor, run_iterations, speedrun
from tests.engine.elsewhere import Ledger, Plan
from tests.engine.flows import start
from tests.harness.counting import Traffic
from tests.harness.models import CompositeHero, Order, db, write_down
from tests.iteration.flows import (
    IteratedFlow,
    Label,
    Parcel,
    ParcelFlow,
    ThriceFlow,
    begun,
    outcomes,
    over,
    pack,
    parcels_of,
    run_all,
    run_one,
)


def walking(statement: Callable[[Any], Any], **options: Any) -> Callable[[Any, IterableStep], None]:
    """A body that writes down the code of each parcel of the statement."""

    def body(running: Any, it: IterableStep) -> None:
        for parcel in it.iterate_over_records(statement(running.hero), **options):
            write_down(running, parcel.code)

    return body


def with_parcels(plan: Plan, body: Any, codes: str, workflow_class: Any = IteratedFlow) -> Any:
    workflow = begun(plan, body, workflow_class)
    pack(workflow.hero, codes)
    return workflow


def test_the_cursor_of_a_sequence_is_the_index_of_the_next_item(app: Flask, plan: Plan) -> None:
    # RES-15
    workflow = begun(plan, over("abcde"))

    run_iterations(workflow, 2)

    assert_cursor(workflow, 2)


def test_a_sequence_goes_on_behind_what_was_done(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-16
    workflow = begun(plan, over("abcde"))

    run_iterations(workflow, 2)
    speedrun(workflow)

    assert ledger(workflow) == ["a", "b", "c", "d", "e", "two"]


def test_an_iterator_goes_on_behind_what_was_done(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-16
    def body(running: Any, it: IterableStep) -> None:
        for item in it.iterate_over(iter("abcde")):
            write_down(running, item)

    workflow = begun(plan, body)

    run_iterations(workflow, 2)
    speedrun(workflow)

    assert ledger(workflow) == ["a", "b", "c", "d", "e", "two"]


def test_what_cannot_be_iterated_over_is_an_error_of_the_step(app: Flask, plan: Plan) -> None:
    # RES-17
    workflow = run_one(begun(plan, lambda running, it: it.iterate_over(5)))

    execution = workflow.execution_history[0]
    assert (execution.state, execution.error_class_name) == ("failed", "TypeError")
    assert "'int' object is not iterable" in str(execution.error_message)


@pytest.mark.parametrize("items", [{"a", "b"}, frozenset("ab")])
def test_a_set_is_refused_since_it_has_no_order_to_go_on_in(app: Flask, plan: Plan, items: Any) -> None:
    workflow = run_one(begun(plan, lambda running, it: it.iterate_over(items)))

    message = str(workflow.execution_history[0].error_message)
    assert "has no order in which the step could go on" in message
    assert "sorted(" in message


@pytest.mark.parametrize("items", [[], "", iter(())])
def test_an_empty_sequence_is_done_at_once(app: Flask, plan: Plan, ledger: Ledger, items: Any) -> None:
    # RES-18
    workflow = run_all(begun(plan, over(items)))

    assert (outcomes(workflow), ledger(workflow)) == ([("success", None)], ["two"])


def test_records_come_by_their_key_with_a_checkpoint_after_each(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-19
    workflow = start(ParcelFlow)
    parcels = pack(workflow.hero, "abcde")
    ids = [parcel.id for parcel in parcels]

    run_all(workflow)

    assert ledger(workflow) == ["a", "b", "c", "d", "e"]
    assert outcomes(workflow) == [("continued", ids[1]), ("continued", ids[3]), ("success", ids[4])]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 1000])
def test_pages_of_any_size_show_every_record_once(app: Flask, plan: Plan, ledger: Ledger, size: int) -> None:
    workflow = with_parcels(plan, walking(parcels_of, batch_size=size), "abcdef")

    run_all(workflow)

    assert ledger(workflow) == [*"abcdef", "two"]


@pytest.mark.parametrize("size", [0, -1, True, 2.5, "10", None])
def test_a_page_of_no_size_is_refused(app: Flask, plan: Plan, size: Any) -> None:
    workflow = run_one(with_parcels(plan, walking(parcels_of, batch_size=size), "a"))

    assert "batch_size must be a positive integer" in str(workflow.execution_history[0].error_message)


def test_batches_are_lists_and_the_cursor_is_the_last_key_of_each(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-20
    def body(running: Any, it: IterableStep) -> None:
        for parcels in it.iterate_over_batches(parcels_of(running.hero), batch_size=2):
            write_down(running, "".join(parcel.code for parcel in parcels))

    workflow = begun(plan, body, ThriceFlow)
    parcels = pack(workflow.hero, "abcdefg")
    last = parcels[-1].id

    run_all(workflow)

    assert ledger(workflow) == ["ab", "cd", "ef", "g", "two"]
    assert outcomes(workflow) == [("continued", last - 1), ("success", last)]


def test_a_batch_that_its_body_deletes_is_passed_as_any_other(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # RES-21: the key is known from the page, so the checkpoint is made all the same.
    def body(running: Any, it: IterableStep) -> None:
        for parcels in it.iterate_over_batches(parcels_of(running.hero), batch_size=2):
            write_down(running, "".join(parcel.code for parcel in parcels))
            db.session.execute(delete(Parcel).where(Parcel.id.in_([parcel.id for parcel in parcels])))

    workflow = with_parcels(plan, body, "abcde")

    run_iterations(workflow, 1)
    speedrun(workflow)

    assert ledger(workflow) == ["ab", "cd", "e", "two"]
    assert db.session.scalar(select(func.count()).select_from(Parcel).where(Parcel.order_id == workflow.hero.id)) == 0


def test_bulk_writes_on_a_batch_are_committed_with_its_checkpoint(app: Flask, plan: Plan) -> None:
    # RES-20
    def body(running: Any, it: IterableStep) -> None:
        for parcels in it.iterate_over_batches(parcels_of(running.hero), batch_size=2):
            ids = [parcel.id for parcel in parcels]
            db.session.execute(update(Parcel).where(Parcel.id.in_(ids)).values(state="sent"))

    workflow = with_parcels(plan, body, "abcde")

    run_iterations(workflow, 2)

    states = db.session.scalars(select(Parcel.state).where(Parcel.order_id == workflow.hero.id).order_by(Parcel.id))
    assert list(states) == ["sent", "sent", "sent", "sent", "packed"]


def test_a_join_that_repeats_records_shows_each_once_and_loses_none(app: Flask, plan: Plan, ledger: Ledger) -> None:
    def body(running: Any, it: IterableStep) -> None:
        labelled = parcels_of(running.hero).join(Parcel.labels)
        for parcel in it.iterate_over_records(labelled, batch_size=2):
            write_down(running, parcel.code)

    workflow = begun(plan, body)
    for parcel in pack(workflow.hero, "abcdef"):
        db.session.add_all([Label(parcel_id=parcel.id) for _ in range(3)])
    db.session.commit()

    run_all(workflow)

    assert ledger(workflow) == [*"abcdef", "two"]


def test_filters_hold_on_every_page(app: Flask, plan: Plan, ledger: Ledger) -> None:
    def odd(order: Order) -> Any:
        return parcels_of(order).where(Parcel.position % 2 == 1)

    workflow = with_parcels(plan, walking(odd, batch_size=2), "abcdefgh")

    run_all(workflow)

    assert ledger(workflow) == [*"bdfh", "two"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"cursor": Parcel.code}, "abcdef"),
        ({"cursor": Parcel.code.desc()}, "fedcba"),
        ({"cursor": (Parcel.sent_on, Parcel.id)}, "fbdace"),
        ({"cursor": (Parcel.sent_on.desc(), Parcel.code)}, "acebdf"),
        ({"cursor": [Parcel.order_id, Parcel.position]}, "fbdace"),
    ],
)
def test_any_unique_columns_may_be_walked_by(
    app: Flask, plan: Plan, ledger: Ledger, options: Any, expected: str
) -> None:
    # B-37
    workflow = begun(plan, walking(parcels_of, batch_size=2, **options), ThriceFlow)
    for parcel, day in zip(pack(workflow.hero, "fbdace"), (1, 1, 1, 2, 2, 2), strict=True):
        parcel.sent_on = date(2026, 5, day)
    db.session.commit()

    run_all(workflow)

    assert ledger(workflow) == [*expected, "two"]


@pytest.mark.parametrize(
    ("ordering", "expected"),
    [((Parcel.code,), "abc"), ((Parcel.code.desc(),), "cba"), ((Parcel.sent_on, Parcel.id.desc()), "acb")],
)
def test_without_a_cursor_the_order_of_the_query_is_walked_by(
    app: Flask, plan: Plan, ledger: Ledger, ordering: Any, expected: str
) -> None:
    workflow = with_parcels(plan, walking(lambda order: parcels_of(order).order_by(*ordering), batch_size=1), "bca")

    run_all(workflow)

    assert ledger(workflow) == [*expected, "two"]


def test_a_key_of_two_columns_is_walked_by_both(app: Flask, plan: Plan, ledger: Ledger) -> None:
    def body(running: Any, it: IterableStep) -> None:
        for hero in it.iterate_over_records(select(CompositeHero), batch_size=2):
            write_down(running, f"{hero.region}{hero.number}")

    db.session.execute(delete(CompositeHero))
    db.session.add_all([CompositeHero(region=region, number=number) for region in "ba" for number in (2, 1, 3)])
    workflow = begun(plan, body, ThriceFlow)

    run_all(workflow)

    assert ledger(workflow) == ["a1", "a2", "a3", "b1", "b2", "b3", "two"]


@pytest.mark.parametrize(
    ("statement", "options", "words"),
    [
        (select(Parcel), {"cursor": Parcel.sent_on}, "several rows may have equal values there"),
        (
            select(Parcel),
            {"cursor": (Parcel.sent_on, Parcel.state)},
            "cursor=(Parcel.sent_on, Parcel.state, Parcel.id",
        ),
        (select(Parcel), {"cursor": Parcel.tracking}, "may be NULL"),
        (select(Parcel).order_by(Parcel.sent_on), {}, "several rows may have equal values there"),
        (select(Parcel), {"cursor": func.lower(Parcel.code)}, "is no column of the Parcel that is selected"),
        (select(Parcel).limit(5), {}, "with LIMIT, OFFSET or FETCH"),
        (select(Parcel).offset(5), {}, "with LIMIT, OFFSET or FETCH"),
        (select(Parcel).order_by(Parcel.code), {"cursor": Parcel.id}, "the select() is ordered by"),
        (select(Parcel, Label).join(Label), {}, "a select() of exactly one model"),
        (select(Parcel.code), {}, "a select() of exactly one model"),
        ([1, 2], {}, "iterated over a select()"),
    ],
)
def test_a_query_that_would_skip_rows_is_refused_with_the_reason(
    app: Flask, plan: Plan, statement: Any, options: Any, words: str
) -> None:
    # B-37
    seen: list[str] = []

    def body(running: Any, it: IterableStep) -> None:
        with pytest.raises(StepConfigurationError) as caught:
            it.iterate_over_records(statement, **options)
        seen.append(str(caught.value))

    run_one(begun(plan, body))

    assert words in seen[0]


def test_a_cursor_column_that_the_query_is_ordered_by_may_be_named_as_well(
    app: Flask, plan: Plan, ledger: Ledger
) -> None:
    by_code = walking(lambda order: parcels_of(order).order_by(Parcel.code), cursor=Parcel.code)
    workflow = with_parcels(plan, by_code, "cab")

    run_all(workflow)

    assert ledger(workflow) == [*"abc", "two"]


def test_rows_that_come_and_go_meanwhile(app: Flask, plan: Plan, ledger: Ledger) -> None:
    def body(running: Any, it: IterableStep) -> None:
        for parcel in it.iterate_over_records(parcels_of(running.hero), batch_size=2):
            write_down(running, parcel.code)
            if parcel.code == "b":
                db.session.execute(delete(Parcel).where(Parcel.code == "d", Parcel.order_id == running.hero.id))
                db.session.add(Parcel(order_id=running.hero.id, position=90, code="x"))
            if parcel.code == "x":
                db.session.add(Parcel(order_id=running.hero.id, position=91, code="y"))

    workflow = with_parcels(plan, body, "abcde")

    run_all(workflow)

    # Also what comes while the last page is gone through.
    assert ledger(workflow) == [*"abcexy", "two"]


@pytest.mark.parametrize(("every", "expected"), [(1, 5), (2, 3), (3, 2), (5, 1), (9, 1)])
def test_checkpoints_are_made_as_seldom_as_asked(
    app: Flask, plan: Plan, ledger: Ledger, every: int, expected: int
) -> None:
    workflow = run_all(begun(plan, over("abcde", checkpoint_every=every)))

    assert workflow.execution_history[0].completed_iterations == expected
    assert ledger(workflow) == [*"abcde", "two"]
    assert outcomes(workflow) == [("success", 5)]


def test_what_follows_the_last_checkpoint_is_taken_back_with_its_cursor(app: Flask, plan: Plan, ledger: Ledger) -> None:
    def fail_at(running: Any, item: str) -> None:
        if item == "e" and len(running.execution_history) == 1:
            raise RuntimeError("once")

    workflow = run_one(begun(plan, over("abcdef", checkpoint_every=2, at=fail_at)))
    assert (ledger(workflow), outcomes(workflow)) == ([*"abcd"], [("failed", 4)])

    workflow.resume()
    db.session.commit()
    run_all(workflow)

    assert ledger(workflow) == [*"abcdef", "two"]


def test_checkpoints_by_the_clock(app: Flask, plan: Plan, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(iteration.time, "monotonic", lambda: clock[0])

    def tick(running: Any, item: str) -> None:
        clock[0] += 4.0

    workflow = run_all(begun(plan, over("abcde", checkpoint_every=timedelta(seconds=10), at=tick)))

    # After c, at 12 seconds, and for the rest.
    assert workflow.execution_history[0].completed_iterations == 2
    assert ledger(workflow) == [*"abcde", "two"]


@pytest.mark.parametrize("every", [0, -1, True, "2", 1.5, None, timedelta(0), timedelta(seconds=-1)])
def test_a_pace_that_is_none_is_refused(app: Flask, plan: Plan, every: Any) -> None:
    workflow = run_one(begun(plan, lambda running, it: it.iterate_over("ab", checkpoint_every=every)))

    assert "checkpoint_every must be a positive number" in str(workflow.execution_history[0].error_message)


def test_a_checkpoint_is_one_statement_and_one_commit(
    app: Flask, plan: Plan, counting: Callable[[], Any], record_property: Callable[[str, object], None]
) -> None:
    seen: list[Traffic] = []

    def body(running: Any, it: IterableStep) -> None:
        with counting() as traffic:
            for _ in it.iterate_over(range(20)):
                pass
        seen.append(traffic)

    run_one(begun(plan, body))

    record_property("20 checkpoints", seen[0].summary)
    assert (seen[0].statements, seen[0].commits) == (20, 20)


def test_a_page_is_one_statement_and_reads_no_record_twice(app: Flask, plan: Plan, counting: Callable[[], Any]) -> None:
    seen: list[Traffic] = []

    def body(running: Any, it: IterableStep) -> None:
        hero = running.hero
        with counting() as traffic:
            for parcel in it.iterate_over_records(parcels_of(hero), batch_size=3):
                assert parcel.code
                assert hero.id
        seen.append(traffic)

    run_one(with_parcels(plan, body, "abcdef"))

    # Three pages, the last of which is empty, and six checkpoints.
    assert (seen[0].statements, seen[0].commits) == (9, 6)
