"""What ``signal()`` takes, what it stores, and what it refuses before anything is stored."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from flask import Flask
from sqlalchemy import func, select, text

from flask_geneva import (
    GenevaError,
    InvalidSignal,
    InvalidStateError,
    PayloadNotSerializable,
    Signal,
    SignalPayloadTooLarge,
    Workflow,
    events,
    step,
)
from flask_geneva.testing import speedrun
from tests.engine.flows import reload, start
from tests.harness.models import Order, db, write_down
from tests.signals.flows import Ledger, PaidFlow, parked

LIMIT = 131_072


class Event(StrEnum):
    """Names of signals."""

    PAID = "paid"


class OldEvent(str, Enum):  # noqa: UP042 (its str() is not its value, which is the point)
    """Names of signals, in the way of old."""

    PAID = "paid"


class EnumFlow(Workflow[Order]):
    """Waits for a name that an Enum has."""

    @step(wait_for=OldEvent.PAID)
    def capture(self) -> None:
        write_down(self)


def number_of_signals() -> int:
    return db.session.scalar(select(func.count()).select_from(Signal)) or 0


def test_a_signal_is_a_pending_row(app: Flask) -> None:
    # SIG-01
    workflow = start(PaidFlow)

    signal = workflow.signal("paid")

    assert (signal.name, signal.state, signal.workflow_id) == ("paid", "pending", workflow.id)
    assert (signal.claimed, signal.consumed, signal.claimed_at, signal.consumed_at) == (0, 0, None, None)
    assert signal.duplicate_delivery is False
    assert number_of_signals() == 1


def test_a_signal_is_stored_with_the_callers_commit(app: Flask) -> None:
    # SIG-01
    workflow = start(PaidFlow)
    signal = workflow.signal("paid", {"n": 1})
    db.session.commit()

    stored = db.session.execute(text("SELECT id, name, state FROM geneva_signals")).one()

    assert tuple(stored) == (signal.id, "paid", "pending")


@pytest.mark.parametrize("name", ["", None, 7, b"paid"])
def test_a_signal_needs_a_name(app: Flask, name: Any) -> None:
    # SIG-02, SIG-04
    workflow = start(PaidFlow)

    with pytest.raises(InvalidSignal, match="the name of a signal must"):
        workflow.signal(name)

    assert number_of_signals() == 0


@pytest.mark.parametrize("key", [42, UUID(int=1), b"key"])
def test_a_key_is_a_string_when_there_is_one(app: Flask, key: Any) -> None:
    # SIG-04
    workflow = start(PaidFlow)

    with pytest.raises(InvalidSignal, match="an idempotency key must be a string"):
        workflow.signal("paid", idempotency_key=key)


def test_an_empty_key_is_refused_and_makes_no_second_event_a_duplicate(app: Flask) -> None:
    workflow = start(PaidFlow)

    with pytest.raises(InvalidSignal, match="an idempotency key must have 1 to 255 characters, this one has 0"):
        workflow.signal("paid", idempotency_key="")

    assert number_of_signals() == 0


def test_an_unknown_option_is_refused(app: Flask) -> None:
    # SIG-03
    workflow = start(PaidFlow)

    with pytest.raises(TypeError, match="timeout"):
        workflow.signal("paid", timeout=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("character", ["x", "ö", "字", "🦆"])
def test_name_and_key_have_at_most_255_characters(app: Flask, character: str) -> None:
    longest, too_long = character * 255, character * 256
    workflow = start(PaidFlow)

    signal = workflow.signal(longest, idempotency_key=longest)
    with pytest.raises(InvalidSignal, match="1 to 255 characters, this one has 256"):
        workflow.signal(too_long)
    with pytest.raises(InvalidSignal, match="1 to 255 characters, this one has 256"):
        workflow.signal("paid", idempotency_key=too_long)

    db.session.commit()
    assert (signal.name, signal.idempotency_key, number_of_signals()) == (longest, longest, 1)


@pytest.mark.parametrize("unstorable", ["a\x00b", "a\ud800"], ids=["NUL", "surrogate"])
def test_a_name_or_key_that_no_database_stores_is_refused(app: Flask, unstorable: str) -> None:
    workflow = start(PaidFlow)

    with pytest.raises(InvalidSignal, match="NUL characters nor lone surrogates"):
        workflow.signal(unstorable)
    with pytest.raises(InvalidSignal, match="NUL characters nor lone surrogates"):
        workflow.signal("paid", idempotency_key=unstorable)

    assert number_of_signals() == 0


@pytest.mark.parametrize("name", [Event.PAID, OldEvent.PAID])
def test_a_member_of_an_enum_of_strings_is_its_value(app: Flask, ledger: Ledger, name: str) -> None:
    # SIG-04
    workflow = parked(EnumFlow)

    workflow.signal(name, idempotency_key=name)
    speedrun(workflow)

    stored = db.session.execute(text("SELECT name, idempotency_key FROM geneva_signals")).one()
    assert tuple(stored) == ("paid", "paid")
    assert ledger(workflow) == ["capture"]


def test_a_mapping_comes_back_as_it_was(app: Flask) -> None:
    # SIG-05
    workflow = start(PaidFlow)
    payload = {"cents": 100, "nested": {"currency": "EUR", "rates": [1, 2.5, None]}}

    signal = workflow.signal("paid", payload)
    db.session.commit()

    assert signal.payload == payload
    assert signal.payload["nested"]["currency"] == "EUR"


def test_a_payload_shares_nothing_with_what_was_sent(app: Flask) -> None:
    workflow = start(PaidFlow)
    payload = {"items": [1]}
    signal = workflow.signal("paid", payload)

    payload["items"].append(2)
    signal.payload["items"].append(3)
    db.session.commit()

    assert signal.payload == {"items": [1]}


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4, 5),
        date(2026, 1, 2),
        timedelta(days=1, microseconds=1),
        Decimal("1.10"),
        UUID(int=7),
        {1, 2},
        (1, "a"),
        b"\x00\xff",
        Event.PAID,
    ],
    ids=lambda value: type(value).__name__,
)
def test_times_numbers_and_the_like_come_back_as_they_were(app: Flask, value: Any) -> None:
    # SIG-06
    workflow = start(PaidFlow)

    signal = workflow.signal("paid", {"it": value})
    db.session.commit()

    assert signal.payload == {"it": value}
    assert type(signal.payload["it"]) is type(value)


def test_a_record_comes_back_as_the_record(app: Flask) -> None:
    # SIG-06
    workflow = start(PaidFlow)
    order = Order(state="sent along")
    db.session.add(order)
    db.session.flush()
    signal_id, order_id = workflow.signal("paid", {"order": order}).id, order.id
    db.session.commit()
    db.session.expunge_all()

    found = db.session.get_one(Signal, signal_id).payload["order"]

    assert (found.id, found.state) == (order_id, "sent along")


def test_a_record_that_is_gone_is_an_error_that_names_it(app: Flask, ledger: Ledger) -> None:
    workflow = parked()
    order = Order()
    db.session.add(order)
    db.session.flush()
    signal = workflow.signal("paid", order)
    db.session.delete(order)

    with pytest.raises(GenevaError, match="Order"):
        speedrun(workflow)

    assert reload(workflow).state == "paused"
    assert signal.state == "claimed"


@pytest.mark.parametrize("value", ["a string", 7, 1.0, True, [1, 2], ""])
def test_a_payload_need_be_no_mapping(app: Flask, value: Any) -> None:
    # SIG-07
    workflow = start(PaidFlow)

    signal = workflow.signal("paid", value)
    db.session.commit()

    assert (signal.payload, type(signal.payload)) == (value, type(value))


def test_a_payload_that_is_left_out_is_an_empty_mapping(app: Flask) -> None:
    # SIG-08
    workflow = start(PaidFlow)
    left_out, none = workflow.signal("paid"), workflow.signal("paid", None)

    db.session.commit()

    assert (left_out.payload, none.payload) == ({}, None)


def test_a_payload_above_the_limit_stores_nothing(app: Flask) -> None:
    # SIG-09
    workflow = start(PaidFlow)

    with pytest.raises(SignalPayloadTooLarge, match=r"signal 'paid'.*131073 bytes.*'GENEVA_MAX_SIGNAL_PAYLOAD_SIZE'"):
        workflow.signal("paid", "x" * (LIMIT - 1))

    assert number_of_signals() == 0


@pytest.mark.parametrize("character", ["x", "ö"])
def test_a_payload_exactly_at_the_limit_passes(app: Flask, character: str) -> None:
    # SIG-09
    workflow = start(PaidFlow)
    payload = character * ((LIMIT - 2) // len(character.encode()))

    signal = workflow.signal("paid", payload)
    db.session.commit()

    assert signal.payload == payload


def test_without_a_limit_nothing_is_too_large(app: Flask, build_app: Any) -> None:
    # SIG-10
    workflow_id = start(PaidFlow).id

    with build_app(GENEVA_MAX_SIGNAL_PAYLOAD_SIZE=None).app_context():
        db.session.get_one(Workflow, workflow_id).signal("paid", "x" * (2 * LIMIT))
        db.session.commit()

    assert len(reload(db.session.get_one(Workflow, workflow_id)).signals) == 1


def test_a_value_that_cannot_be_stored_is_refused(app: Flask) -> None:
    # SIG-11
    workflow = start(PaidFlow)

    with pytest.raises(PayloadNotSerializable, match=r"payload\['it'\].*object"):
        workflow.signal("paid", {"it": object()})

    assert number_of_signals() == 0


def test_an_object_that_left_its_session_can_be_signalled(app: Flask, ledger: Ledger) -> None:
    # SIG-12
    workflow = parked()
    db.session.commit()
    db.session.expunge_all()

    signal = workflow.signal("paid", 1)
    db.session.commit()

    assert (signal.state, signal.workflow_id) == ("claimed", db.session.scalars(select(Workflow.id)).one())


def test_a_workflow_that_is_not_stored_takes_no_signal(app: Flask) -> None:
    workflow = start(PaidFlow)
    db.session.delete(workflow)
    db.session.commit()

    with pytest.raises(InvalidStateError, match="not stored, or not any more"):
        workflow.signal("paid")


def test_a_signal_to_a_workflow_of_the_same_transaction_is_stored_with_it(app: Flask, ledger: Ledger) -> None:
    order = Order()
    db.session.add(order)
    workflow = PaidFlow.create(hero=order)
    workflow.signal("paid", 1)
    db.session.commit()

    speedrun(workflow)

    assert ledger(workflow)[1] == "captured 1"


def test_subscribers_hear_of_a_signal_after_the_commit(app: Flask) -> None:
    workflow = start(PaidFlow)
    heard: list[dict[str, Any]] = []

    with events.signal_received.connected_to(lambda app, **facts: heard.append(facts)):
        signal = workflow.signal("paid", idempotency_key="once")
        workflow.signal("paid", idempotency_key="once")
        assert heard == []
        db.session.commit()

    facts = {"workflow_id": workflow.id, "workflow_class": "PaidFlow", "signal_id": signal.id, "signal_name": "paid"}
    assert heard == [facts]


def test_the_relationships_show_a_signal_at_once(app: Flask) -> None:
    workflow = start(PaidFlow)
    assert workflow.signals == []

    signal = workflow.signal("paid")

    assert workflow.signals == [signal]
    assert signal.workflow is workflow
