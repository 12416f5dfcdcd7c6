"""Handlers that do more than they should with the session, and workflows that stand where nobody waits."""

from __future__ import annotations

import pytest
from sqlalchemy import null, text
from sqlalchemy.exc import SQLAlchemyError

from flask_geneva import InvalidSignal
from flask_geneva.errors import InvalidStateError
from flask_geneva.testing import perform_next_step
from flask_geneva.webhooks import Delivery, StandardWebhook
from tests.harness.models import Customer
from tests.harness.models import db as the_db
from tests.webhooks.conftest import PaymentCheck
from tests.webhooks.signing import SECRET


@pytest.fixture
def handled_by(shop):
    """Registers a source 'own' whose handler is called with the workflow, and answers that workflow's id."""

    def register(handler):
        workflow_id = shop.start()
        shop.geneva.webhook("own", StandardWebhook(SECRET))(lambda event: handler(shop.workflow(workflow_id)))
        return workflow_id

    return register


@pytest.fixture
def failure(shop):
    """Delivers an event that fails; the reason in the log."""

    def deliver(status=500):
        assert shop.deliver({}, source="own").status_code == status
        [row] = shop.log()
        assert (row.outcome, row.http_status) == ("failed", status)
        return row.reason

    return deliver


@pytest.mark.parametrize("verb", ["commit", "rollback", "close", "remove", "begin_nested", "expunge_all"])
def test_whatever_a_handler_does_to_the_session_its_signal_is_delivered_once(shop, handled_by, verb):
    def handle(workflow):
        getattr(the_db.session, verb)()
        return Delivery(workflow, "paid", payload=verb)

    workflow = handled_by(handle)

    assert shop.deliver({}, source="own").status_code == 202
    assert shop.deliver({}, source="own").status_code == 200
    assert shop.signals(workflow) == [("paid", verb)]


def test_a_handler_may_act_as_an_operator_in_the_same_transaction(shop, handled_by):
    def handle(workflow):
        workflow.skip()
        return Delivery(workflow, "parcel/handed over")

    workflow = handled_by(handle)

    assert shop.deliver({}, source="own").json["state"] == "pending"
    with shop.app.app_context():
        assert shop.workflow(workflow).next_step_name == "follow_parcel"


def test_a_handler_may_signal_by_itself_and_answer_none(shop, handled_by):
    def handle(workflow):
        workflow.signal("paid", 1)

    workflow = handled_by(handle)

    assert shop.deliver({}, source="own").status_code == 204
    assert shop.signals(workflow) == [("paid", 1)]


def test_a_write_that_the_database_refuses_at_the_commit_undoes_the_signal_too(shop, handled_by, failure):
    def handle(workflow):
        workflow.signal("paid", 1)
        the_db.session.add(Customer(name=null()))

    workflow = handled_by(handle)

    assert failure(503).startswith("IntegrityError: ")
    assert shop.signals(workflow) == []


def test_a_database_error_that_a_handler_swallows_never_makes_half_a_delivery(shop, handled_by):
    def handle(workflow):
        try:
            the_db.session.execute(text("SELECT nonsense"))
        except SQLAlchemyError:
            return Delivery(workflow, "paid")

    workflow = handled_by(handle)

    # PostgreSQL takes nothing more in such a transaction, the others do.
    status = shop.deliver({}, source="own").status_code

    assert (status, len(shop.signals(workflow))) in {(202, 1), (503, 0)}


@pytest.mark.parametrize("number", [1, 2])
def test_deliveries_to_workflows_that_are_not_stored_are_refused_in_words(handled_by, failure, number):
    handled_by(lambda workflow: [Delivery(PaymentCheck(), "paid") for _ in range(number)])

    assert failure().startswith(f"{InvalidStateError.__name__}: Cannot deliver signal 'paid'")


@pytest.mark.parametrize("key", ["", 7, "x" * 256])
def test_a_key_that_is_none_is_refused_and_no_event_is_taken_for_another(shop, handled_by, failure, key):
    workflow = handled_by(lambda workflow: Delivery(workflow, "paid", idempotency_key=key))

    assert failure().startswith(f"{InvalidSignal.__name__}: Cannot deliver a signal: an idempotency key")
    assert shop.signals(workflow) == []


def test_a_process_that_is_told_to_end_within_a_handler_leaves_nothing_behind(shop, handled_by):
    def handle(workflow):
        workflow.signal("paid", 1)
        raise SystemExit

    workflow = handled_by(handle)

    with pytest.raises(SystemExit):
        shop.deliver({}, source="own")
    assert shop.signals(workflow) == []


def test_a_signal_to_a_paused_workflow_is_buffered_and_read_after_resume(shop):
    workflow = shop.start()
    change(shop, workflow, "pause")

    assert shop.deliver({"workflow": workflow}).json["state"] == "pending"
    assert shop.deliver({"workflow": workflow}).status_code == 200

    change(shop, workflow, "resume")
    with shop.app.app_context():
        perform_next_step(shop.workflow(workflow))
        assert shop.workflow(workflow).next_step_name == "follow_parcel"


@pytest.mark.parametrize("verbs", [["cancel"], ["skip", "skip"]], ids=["canceled", "finished"])
def test_a_list_with_one_ended_workflow_in_it_is_409_and_none_is_signaled(shop, handled_by, verbs):
    ended = shop.start()
    change(shop, ended, *verbs)
    ongoing = handled_by(lambda workflow: [Delivery(workflow, "paid"), Delivery(shop.workflow(ended), "paid")])

    assert shop.deliver({}, source="own").status_code == 409
    assert shop.signals(ongoing) == []
    assert shop.log()[-1].outcome == "refused"


def change(shop, workflow_id, *verbs):
    """Call verbs of an operator, and commit."""
    with shop.app.app_context():
        for verb in verbs:
            getattr(shop.workflow(workflow_id), verb)()
        the_db.session.commit()
