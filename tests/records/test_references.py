"""Records inside stored values are kept as class and key, and loaded when they are read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from flask_geneva.errors import PayloadNotSerializable, ReferencedRecordMissing
from flask_geneva.records.references import models_in
from flask_geneva.records.values import decode, encode
from tests.records.samples import same


class ReferenceBase(DeclarativeBase):
    pass


class Parcel(ReferenceBase):
    __tablename__ = "parcels"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(default="parcel")
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "parcel"}


class Letter(Parcel):
    __mapper_args__ = {"polymorphic_identity": "letter"}


class Slot(ReferenceBase):
    __tablename__ = "slots"
    day: Mapped[date] = mapped_column(primary_key=True)
    room: Mapped[UUID] = mapped_column(primary_key=True)


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    ReferenceBase.metadata.create_all(engine)
    with Session(engine) as session:
        yield session
    engine.dispose()


def stored(session: Session, record: Any) -> Any:
    session.add(record)
    session.flush()
    return record


def test_a_record_is_loaded_again_wherever_it_stands(session: Session) -> None:
    # SIG-06
    parcel, slot = stored(session, Parcel()), stored(session, Slot(day=date(2026, 1, 2), room=uuid4()))
    structure = encode({"parcel": parcel, "slots": (slot, {slot})})
    room = slot.room
    session.commit()
    session.expunge_all()

    found = decode(structure, session)

    assert found["parcel"] is session.get(Parcel, 1)
    assert found["slots"][0].room == room
    assert found["slots"][1] == {found["slots"][0]}


def test_a_record_keeps_its_subclass(session: Session) -> None:
    structure = encode(stored(session, Letter()))
    session.expunge_all()

    assert type(decode(structure, session)) is Letter
    assert structure == {"$record": [f"{__name__}:Parcel", [1]]}


def test_storing_a_record_reads_nothing_from_the_database(session: Session) -> None:
    parcel = stored(session, Parcel())
    session.commit()
    session.close()

    assert encode(parcel) == {"$record": [f"{__name__}:Parcel", [1]]}


def test_a_record_without_a_key_is_refused_with_the_advice_to_flush(session: Session) -> None:
    pending = Parcel()
    session.add(pending)

    for record in (pending, Parcel()):
        with pytest.raises(PayloadNotSerializable, match=r"payload\['parcel'\], a Parcel: .* call flush\(\) first"):
            encode({"parcel": record})


def test_a_deleted_record_is_refused(session: Session) -> None:
    parcel = stored(session, Parcel())
    session.delete(parcel)
    session.flush()

    with pytest.raises(PayloadNotSerializable, match="is deleted"):
        encode(parcel)


def test_a_record_that_was_deleted_meanwhile_is_named_on_reading(session: Session) -> None:
    structure = encode(stored(session, Parcel(id=42)))
    session.delete(session.get(Parcel, 42))
    session.flush()

    with pytest.raises(ReferencedRecordMissing, match=f"the record {__name__}:Parcel 42, which is deleted"):
        decode(structure, session)


def test_a_record_cannot_be_read_without_a_session() -> None:
    with pytest.raises(ReferencedRecordMissing, match="there is no session"):
        decode({"$record": [f"{__name__}:Parcel", [1]]}, None)


@pytest.mark.parametrize("reference", ["tests.records.samples:Gone", "nowhere:Parcel", "builtins:int", "", "Parcel"])
def test_a_model_that_is_gone_is_named_on_reading(session: Session, reference: str) -> None:
    with pytest.raises(ReferencedRecordMissing, match=f"the model '{reference}', which is not declared"):
        decode({"$record": [reference, [1]]}, session)


def test_a_model_inside_a_function_is_found_through_its_registry(session: Session) -> None:
    class Local(ReferenceBase):
        __table__ = Parcel.__table__
        __mapper_args__ = {"primary_key": [Parcel.__table__.c.id]}

    structure = encode(stored(session, Local()))
    find_model = models_in([ReferenceBase.registry])

    assert same(type(decode(structure, session, find_model)), Local)
    with pytest.raises(ReferencedRecordMissing, match="<locals>"):
        decode(structure, session)


def test_a_model_that_moved_to_another_module_is_found_by_its_name(session: Session) -> None:
    stored(session, Slot(day=date(2026, 1, 2), room=UUID(int=1)))
    moved = {"$record": ["old.models:Slot", [{"$date": "2026-01-02"}, {"$uuid": str(UUID(int=1))}]]}

    found = decode(moved, session, models_in([ReferenceBase.registry]))

    assert found.room == UUID(int=1)


def test_a_name_that_two_models_bear_finds_neither() -> None:
    class First(DeclarativeBase):
        pass

    class Second(DeclarativeBase):
        pass

    namespace = {"__tablename__": "twins", "__annotations__": {"id": Mapped[int]}}
    twins = [type("Twin", (base,), {**namespace, "id": mapped_column(primary_key=True)}) for base in (First, Second)]

    assert models_in([First.registry])("old.models:Twin") is twins[0]
    assert models_in([First.registry, Second.registry])("old.models:Twin") is None
