"""By which columns a query may be walked, and why not by others."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Float, ForeignKey, Index, Select, String, delete, func, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, aliased, mapped_column, relationship

from flask_geneva import IterableStep, StepConfigurationError
from flask_geneva.engine.keyset import Keyset
from tests.engine.elsewhere import Ledger, Plan
from tests.harness.models import Model, db, write_down
from tests.iteration.flows import Parcel, begun, outcomes, pack, run_all, run_one


class Base(DeclarativeBase):
    """Of models that are looked at only."""


class Depot(Base):
    """Where crates are."""

    __tablename__ = "depots"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(20))


class Crate(Base):
    """It has unique columns of every kind that is not enough."""

    __tablename__ = "crates"

    id: Mapped[int] = mapped_column(primary_key=True)
    depot_id: Mapped[int] = mapped_column(ForeignKey("depots.id"))
    depot: Mapped[Depot] = relationship()
    urgency: Mapped[int]
    code: Mapped[str] = mapped_column(String(20))
    weight: Mapped[float] = mapped_column(Float, unique=True)
    __table_args__ = (
        Index("ix_urgent", "urgency", unique=True, postgresql_where=text("urgency > 9")),
        Index("ix_lower", func.lower(text("code")), unique=True),
    )


class Vehicle(Model):
    """A model in two tables."""

    __tablename__ = "vehicles"

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(20))
    plate: Mapped[str] = mapped_column(String(20), unique=True)
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "vehicle"}


class Lorry(Vehicle):
    """The other table."""

    __tablename__ = "lorries"

    id: Mapped[int] = mapped_column(ForeignKey("vehicles.id"), primary_key=True)
    trailer: Mapped[int] = mapped_column(unique=True)
    __mapper_args__ = {"polymorphic_identity": "lorry"}


crate = aliased(Crate)
SEVERAL = "several rows may have equal values there"
NOT_ITS_OWN = "is no column of the Crate that is selected"


@pytest.mark.parametrize(
    ("statement", "cursor", "words"),
    [
        (select(Crate), Crate.urgency, SEVERAL),
        (select(Crate), Crate.code, SEVERAL),
        (select(Crate), Crate.depot_id, SEVERAL),
        (select(Crate).order_by(Crate.depot_id.desc()), None, SEVERAL),
        (select(Crate), Crate.weight, "is a floating-point number"),
        (select(Crate), (Crate.weight, Crate.id), "is a floating-point number"),
        (select(Crate), func.lower(Crate.code), NOT_ITS_OWN),
        (select(Crate), (Crate.urgency + 1, Crate.id), NOT_ITS_OWN),
        (select(Crate), "id", NOT_ITS_OWN),
        (select(Crate).order_by("id"), None, NOT_ITS_OWN),
        (select(Crate).order_by(Crate.id.nulls_last()), None, NOT_ITS_OWN),
        (select(Crate).join(Crate.depot), (Depot.name, Crate.id), NOT_ITS_OWN),
        (select(Crate).outerjoin(Crate.depot), (Depot.name, Crate.id), NOT_ITS_OWN),
        (select(Crate).join(Crate.depot), Depot.id, NOT_ITS_OWN),
        (select(crate), Crate.id, NOT_ITS_OWN),
        (select(Crate), crate.id, NOT_ITS_OWN),
        (select(Crate), (), "name a column"),
        (select(Crate).order_by(Crate.id.desc()), Crate.id, "is ordered by"),
    ],
)
def test_what_would_skip_or_repeat_records_is_refused(statement: Select[Any], cursor: Any, words: str) -> None:
    # B-37
    with pytest.raises(StepConfigurationError, match=words):
        Keyset(statement, cursor)


@pytest.mark.parametrize(
    ("statement", "cursor"),
    [
        (select(Crate), Crate.__table__.c.id),
        (select(Crate).order_by(Crate.id.asc()), Crate.id),
        (select(Crate).order_by(Crate.urgency), (Crate.urgency, Crate.id)),
        (select(Crate).join(Crate.depot).where(Depot.name == "north").distinct(), None),
        (select(crate), crate.id.desc()),
        (select(Lorry), None),
        (select(Lorry), Lorry.id),
        (select(Lorry), Vehicle.id),
        (select(Lorry), Lorry.plate),
        (select(Lorry), Lorry.trailer),
    ],
)
def test_what_tells_records_apart_is_taken(statement: Select[Any], cursor: Any) -> None:
    Keyset(statement, cursor)


def test_an_alias_of_a_model_is_walked_as_the_model_is(app: Flask, plan: Plan, ledger: Ledger) -> None:
    def body(running: Any, it: IterableStep) -> None:
        parcel = aliased(Parcel)
        for each in it.iterate_over_records(select(parcel).where(parcel.order_id == running.hero.id), batch_size=2):
            write_down(running, each.code)

    workflow = begun(plan, body)
    pack(workflow.hero, "abcde")

    run_all(workflow)

    assert ledger(workflow) == [*"abcde", "two"]


@pytest.mark.parametrize("cursor", [None, Lorry.plate, (Lorry.trailer.desc(), Lorry.id)])
def test_a_model_in_two_tables_is_walked_by_the_columns_of_both(
    app: Flask, plan: Plan, ledger: Ledger, cursor: Any
) -> None:
    def body(running: Any, it: IterableStep) -> None:
        for lorry in it.iterate_over_records(select(Lorry), cursor=cursor, batch_size=2):
            write_down(running, lorry.plate)

    db.session.execute(delete(Lorry.__table__))
    db.session.execute(delete(Vehicle.__table__))
    for number, plate in enumerate("abcde"):
        db.session.add(Lorry(plate=plate, trailer=10 - number))
        db.session.flush()
    workflow = begun(plan, body)

    run_all(workflow)

    assert ledger(workflow) == [*"abcde", "two"]


@pytest.mark.parametrize(
    ("stored", "cursor"),
    [(5, (Parcel.order_id, Parcel.position)), ((1,), (Parcel.order_id, Parcel.position)), ((1, 2), Parcel.id)],
)
def test_a_cursor_of_other_columns_than_before_a_deploy_is_an_error_of_the_step(
    app: Flask, plan: Plan, stored: Any, cursor: Any
) -> None:
    def body(running: Any, it: IterableStep) -> None:
        if not it.resumed:
            it.skip_to(stored)
        for _ in it.iterate_over_records(select(Parcel), cursor=cursor):
            raise AssertionError("a record was met")

    workflow = run_one(run_one(begun(plan, body)))

    failed = workflow.execution_history[1]
    assert (workflow.state, failed.error_class_name) == ("paused", "InvalidStateError")
    assert "begin anew with reattempt(rewind=True)" in str(failed.error_message)
    assert outcomes(workflow)[1] == ("failed", stored)


@pytest.mark.parametrize("stored", ["", False, "3", -1, (1,), 1.0])
def test_a_cursor_that_is_no_index_does_not_begin_a_sequence_anew(app: Flask, plan: Plan, stored: Any) -> None:
    def body(running: Any, it: IterableStep) -> None:
        if not it.resumed:
            it.skip_to(stored)
        for _ in it.iterate_over("abc"):
            raise AssertionError("an item was met")

    workflow = run_one(run_one(begun(plan, body)))

    assert "it is no index" in str(workflow.execution_history[1].error_message)
