"""An event that is delivered twice is stored, and handled, once."""

from __future__ import annotations

import unicodedata

import pytest
from flask import Flask
from sqlalchemy import func, select, text

from flask_geneva import Signal
from flask_geneva.engine.runtime import JobRequest
from flask_geneva.testing import speedrun
from tests.engine.flows import reload, start
from tests.harness.models import Order, db
from tests.signals.flows import Ledger, PaidFlow, parked


def test_a_second_delivery_is_the_first_row_with_a_flag(app: Flask) -> None:
    # SIG-13
    workflow = start(PaidFlow)
    first = workflow.signal("paid", {"n": 1}, idempotency_key="once")

    again = workflow.signal("paid", {"n": 2}, idempotency_key="once")

    assert (again.id, again.payload) == (first.id, {"n": 1})
    assert (first.duplicate_delivery, again.duplicate_delivery) == (False, True)
    assert workflow.signals == [first]


def test_another_payload_under_a_known_key_is_told_to_the_log(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    # SIG-13, B-46
    workflow = start(PaidFlow)
    workflow.signal("paid", {"n": 1}, idempotency_key="once")
    workflow.signal("paid", {"n": 1}, idempotency_key="once")
    assert caplog.text == ""

    workflow.signal("paid", {"n": 2}, idempotency_key="once")

    assert f"Signal 'paid' came again to workflow #{workflow.id} with key 'once' and another payload" in caplog.text


def test_a_duplicate_has_its_workflow_and_its_texts(app: Flask) -> None:
    workflow = start(PaidFlow)
    workflow.signal("paid", {"n": 1}, idempotency_key="once")
    db.session.commit()

    again = workflow.signal("paid", {"n": 1}, idempotency_key="once")

    assert again.workflow is workflow
    assert (again.name, again.idempotency_key, repr(again)) == ("paid", "once", f"<Signal #{again.id} paid pending>")


def test_a_duplicate_wakes_nobody_and_sends_nothing(jobs: list[JobRequest]) -> None:
    # SIG-14
    workflow = parked()
    first = workflow.signal("paid", idempotency_key="once")
    db.session.commit()
    woken = workflow.execution_history[-1]
    sent = len(jobs)

    again = workflow.signal("paid", idempotency_key="once")
    db.session.commit()

    assert (again.claimed, first.claimed, len(jobs)) == (1, 1, sent)
    assert (workflow.execution_history[-1].id, woken.signal_id) == (woken.id, first.id)


def test_a_duplicate_of_a_consumed_signal_changes_nothing(app: Flask, ledger: Ledger) -> None:
    # SIG-14
    workflow = parked()
    first = workflow.signal("paid", idempotency_key="once")
    db.session.commit()
    speedrun(workflow)

    assert workflow.signal("paid", idempotency_key="once").state == "consumed"
    assert (reload(workflow).state, first.claimed, first.consumed) == ("finished", 1, 1)


def test_one_key_under_two_names_is_two_signals(app: Flask) -> None:
    # SIG-15
    workflow = start(PaidFlow)

    signals = [workflow.signal(name, idempotency_key="once") for name in ("paid", "captured")]

    assert [signal.duplicate_delivery for signal in signals] == [False, False]


def test_one_key_on_two_workflows_is_two_signals(app: Flask) -> None:
    # SIG-15
    signals = [start(PaidFlow).signal("paid", idempotency_key="once") for _ in range(2)]

    assert [signal.duplicate_delivery for signal in signals] == [False, False]
    assert signals[0].id != signals[1].id


@pytest.mark.parametrize("other", ["K", "k ", " k", "ḱ", "\tk", "k\n", "\N{KELVIN SIGN}", "k\u200b"])
def test_keys_and_names_compare_by_every_character(app: Flask, other: str) -> None:
    # SIG-15
    workflow = start(PaidFlow)
    for name, key in [("n", "k"), ("n", other), (other, "k")]:
        assert not workflow.signal(name, idempotency_key=key).duplicate_delivery

    for name, key in [("n", "k"), ("n", other), (other, "k")]:
        again = workflow.signal(name, idempotency_key=key)
        assert (again.duplicate_delivery, again.name, again.idempotency_key) == (True, name, key)


def test_an_accented_letter_is_not_what_it_is_composed_of(app: Flask) -> None:
    # SIG-15
    workflow = start(PaidFlow)
    composed, decomposed = "é", unicodedata.normalize("NFD", "é")

    assert not workflow.signal("n", idempotency_key=composed).duplicate_delivery
    assert not workflow.signal("n", idempotency_key=decomposed).duplicate_delivery


def test_keys_that_differ_in_the_last_of_255_characters_differ(app: Flask) -> None:
    workflow = start(PaidFlow)

    assert not workflow.signal("n", idempotency_key="🦆" * 254 + "a").duplicate_delivery
    assert not workflow.signal("n", idempotency_key="🦆" * 254 + "b").duplicate_delivery
    assert workflow.signal("n", idempotency_key="🦆" * 254 + "a").duplicate_delivery


def test_signals_without_a_key_are_never_duplicates(app: Flask) -> None:
    # SIG-16
    workflow = start(PaidFlow)

    signals = [workflow.signal("paid") for _ in range(2)]

    assert [signal.duplicate_delivery for signal in signals] == [False, False]
    assert workflow.signals == signals


def test_the_callers_transaction_goes_on_after_a_duplicate(app: Flask) -> None:
    # SIG-17
    workflow = start(PaidFlow)
    workflow.signal("paid", idempotency_key="once")
    db.session.commit()
    db.session.add(Order(state="before"))

    assert workflow.signal("paid", idempotency_key="once").duplicate_delivery
    db.session.add(Order(state="after"))
    db.session.commit()

    written = select(func.count()).select_from(Order).where(Order.state.in_(("before", "after")))
    assert db.session.scalar(written) == 2


def test_a_duplicate_in_a_savepoint_leaves_the_savepoint_usable(app: Flask) -> None:
    # SIG-17
    workflow = start(PaidFlow)
    workflow.signal("paid", idempotency_key="once")

    with db.session.begin_nested():
        assert workflow.signal("paid", idempotency_key="once").duplicate_delivery
        workflow.signal("paid", idempotency_key="twice")
    db.session.commit()

    assert [signal.idempotency_key for signal in workflow.signals] == ["once", "twice"]


def test_the_flag_belongs_to_the_returned_object(app: Flask) -> None:
    # SIG-18
    workflow = start(PaidFlow)
    workflow.signal("paid", idempotency_key="once")
    assert workflow.signal("paid", idempotency_key="once").duplicate_delivery
    db.session.commit()
    db.session.expunge_all()

    assert not db.session.scalars(select(Signal)).one().duplicate_delivery
    columns = db.session.execute(text("SELECT * FROM geneva_signals")).keys()
    assert "duplicate_delivery" not in columns


def test_a_rolled_back_delivery_is_no_delivery(app: Flask) -> None:
    workflow = start(PaidFlow)
    workflow.signal("paid", idempotency_key="once")
    db.session.rollback()

    assert not workflow.signal("paid", idempotency_key="once").duplicate_delivery
