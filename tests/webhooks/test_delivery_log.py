from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from sqlalchemy import text, update
from werkzeug.datastructures import Headers

from flask_geneva.webhooks import Delivery, StandardWebhook, WebhookEvent
from flask_geneva.webhooks.delivery_log import (
    delete_older_than,
    keepable_headers,
    latest,
    storable,
    webhook_deliveries,
)
from flask_geneva.webhooks.refusal_budget import ROWS_PER_HOUR, RefusalBudget
from flask_geneva.webhooks.views import ReplayRefused, Webhooks
from tests.harness.models import db as the_db
from tests.webhooks.conftest import register_payments
from tests.webhooks.signing import SECRET


def webhooks_of(shop):
    return Webhooks(shop.app.extensions["geneva"].runtime, shop.geneva.webhook_sources)


@pytest.fixture
def keeping_shop(make_shop):
    return make_shop(GENEVA_WEBHOOK_KEEP_BODIES=True)


@pytest.fixture
def replay(keeping_shop):
    def do(row):
        with keeping_shop.app.app_context():
            return webhooks_of(keeping_shop).replay(row.id)

    return do


def test_a_delivery_leaves_a_row(shop):
    workflow = shop.start()
    body = b'{"workflow": %d, "type": "invoice.paid"}' % workflow

    signal_id = shop.deliver(body).json["signal_id"]

    [row] = shop.log()
    assert (row.source, row.event_id, row.event_type) == ("payments", "msg_1", "invoice.paid")
    assert (row.outcome, row.http_status, row.reason) == ("delivered", 202, None)
    assert (row.workflow_id, row.signal_id, row.signal_name) == (workflow, signal_id, "paid")
    assert (row.body_hash, row.body_size) == (hashlib.sha256(body).hexdigest(), len(body))
    assert abs(datetime.now(UTC) - row.received_at) < timedelta(minutes=1)
    assert abs(datetime.now(UTC) - row.sent_at) < timedelta(minutes=1)
    assert (row.body, row.headers) == (None, None)


def test_several_signals_are_all_in_the_row(shop):
    workflow = shop.start()

    shop.deliver({"workflow": workflow, "names": ["paid", "parcel/handed over"]})

    [row] = shop.log()
    assert row.signal_name == "paid"
    assert [(each["workflow_id"], each["name"]) for each in row.signals] == [
        (workflow, "paid"),
        (workflow, "parcel/handed over"),
    ]


def test_every_kind_of_answer_leaves_a_row(shop):
    workflow = shop.start()
    shop.deliver({"workflow": workflow})
    shop.deliver({"workflow": workflow})
    shop.deliver({"names": []})
    shop.deliver({"workflow": 999})
    shop.deliver({"no": "workflow"})
    shop.deliver(b"{")
    shop.post("/webhooks/payments", b"{}", headers={})
    shop.deliver({}, content_type="text/plain")
    shop.client.get("/geneva/webhooks/payments")
    shop.post("/webhooks/payments", b" " * 200_000)

    assert [(row.outcome, row.http_status) for row in shop.log()] == [
        ("delivered", 202),
        ("duplicate", 200),
        ("ignored", 204),
        ("refused", 404),
        ("failed", 500),
        ("refused", 400),
        ("refused", 401),
        ("refused", 415),
        ("refused", 405),
        ("refused", 413),
    ]


def test_the_row_of_a_failure_says_what_was_raised(shop):
    shop.deliver({"names": ["paid"]})

    [row] = shop.log()
    assert (row.outcome, row.reason) == ("failed", "KeyError: 'workflow'")


def test_the_row_of_a_database_error_tells_nothing_of_the_statement(shop, db):
    shop.geneva.webhook("own", StandardWebhook(SECRET))(
        lambda event: db.session.execute(text("SELECT * FROM no_such_table WHERE card = :card"), {"card": "4111"})
    )

    shop.deliver({}, source="own")

    [row] = shop.log()
    assert row.http_status == 503
    assert "no_such_table" in row.reason
    assert "SELECT" not in row.reason
    assert "4111" not in row.reason


def test_a_verified_body_is_kept_where_the_config_says_so(keeping_shop, sign_standard):
    keeping_shop.geneva.webhook("own", StandardWebhook(SECRET))(lambda event: None)
    headers = sign_standard(b"{}") | {"Authorization": "Bearer x", "X-Api-Key": "x", "X-Shop": "7"}

    keeping_shop.post("/webhooks/own", b"{}", headers=headers)
    keeping_shop.post("/webhooks/own", b'{"forged": 1}', headers=headers)

    kept, forged = keeping_shop.log()
    assert kept.body == b"{}"
    assert kept.headers["X-Shop"] == "7"
    assert not kept.headers.keys() & {"Authorization", "X-Api-Key", "Webhook-Signature"}
    assert (forged.body, forged.headers) == (None, None)


def test_refused_requests_cannot_fill_the_disk(shop):
    for _ in range(ROWS_PER_HOUR + 50):
        shop.post("/webhooks/payments", b"{}", headers={})
    shop.deliver({"names": []})

    assert [row.http_status for row in shop.log()] == [401] * ROWS_PER_HOUR + [204]


def test_the_budget_of_refusals_fills_up_again_and_is_each_sources_own():
    budget = RefusalBudget()
    noon = datetime(2025, 1, 1, 12, tzinfo=UTC)

    assert [budget.take("a", noon) for _ in range(ROWS_PER_HOUR + 2)] == [True] * ROWS_PER_HOUR + [False] * 2
    assert budget.take("b", noon)
    half_past = noon + timedelta(minutes=30)
    assert [budget.take("a", half_past) for _ in range(ROWS_PER_HOUR)].count(True) == ROWS_PER_HOUR // 2


def test_a_log_that_cannot_be_written_does_not_hurt_the_delivery(shop, db, caplog):
    workflow = shop.start()
    with shop.app.app_context():
        db.session.execute(text("ALTER TABLE geneva_webhook_deliveries RENAME TO hidden_away"))
        db.session.commit()

    try:
        assert shop.deliver({"workflow": workflow}).status_code == 202
        assert "left no row in the log" in caplog.text
    finally:
        with shop.app.app_context():
            db.session.execute(text("ALTER TABLE hidden_away RENAME TO geneva_webhook_deliveries"))
            db.session.commit()


@pytest.mark.parametrize("flush", [False, True], ids=["unsaved", "flushed"])
def test_what_a_refused_request_left_in_the_session_is_not_committed_and_keeps_nobody_waiting(shop, db, flush):
    workflow = shop.start()

    @shop.app.before_request
    def touch():
        shop.workflow(workflow).hero_type = "touched"
        if flush:
            db.session.flush()

    assert shop.post("/webhooks/payments", b"{}", headers={}).status_code == 401
    assert len(shop.log()) == 1
    with shop.app.app_context():
        assert shop.workflow(workflow).hero_type is None


def test_an_event_that_no_row_can_be_made_of_is_handled_all_the_same(shop, caplog):
    class Careless:
        def verify(self, request):
            return WebhookEvent(id="1", timestamp="noon", type=5, data={"a": 1}, headers=7, body=b"")

    seen = []
    shop.geneva.webhook("own", Careless())(seen.append)

    assert shop.post("/webhooks/own", b"{}", headers={}).status_code == 204
    assert len(seen) == 1
    assert "left no row in the log" in caplog.text


def test_a_replay_hands_the_kept_body_to_the_mended_handler(keeping_shop, replay):
    workflow = keeping_shop.start()
    mended = []

    @keeping_shop.geneva.webhook("own", StandardWebhook(SECRET))
    def maybe(event):
        if not mended:
            raise RuntimeError("a bug")
        mended.append(event)
        return Delivery(keeping_shop.workflow(workflow), "paid", payload=event.data["payload"])

    keeping_shop.deliver({"payload": 7, "type": "t"}, source="own")
    [failed] = keeping_shop.log()
    mended.append(None)

    with time_machine.travel(datetime.now(UTC) + timedelta(days=20)):
        reception = replay(failed)

    assert reception.http_status == 202
    assert keeping_shop.signals(workflow) == [("paid", 7)]
    event = mended[-1]
    assert (event.id, event.type, event.data) == ("msg_1", "t", {"payload": 7, "type": "t"})
    assert event.headers["Content-Type"] == "application/json"
    assert [(row.outcome, row.replay_of_id) for row in keeping_shop.log()[1:]] == [("delivered", failed.id)]


def test_a_replay_of_what_was_delivered_is_a_duplicate(keeping_shop, replay):
    workflow = keeping_shop.start()
    keeping_shop.geneva.webhook("own", StandardWebhook(SECRET))(
        lambda event: Delivery(keeping_shop.workflow(workflow), "paid")
    )
    keeping_shop.deliver({}, source="own")

    assert replay(keeping_shop.log()[0]).http_status == 200
    assert len(keeping_shop.signals(workflow)) == 1


def test_a_replay_of_a_replay_names_the_first_delivery(keeping_shop, replay):
    keeping_shop.geneva.webhook("own", StandardWebhook(SECRET))(lambda event: None)
    keeping_shop.deliver({}, source="own")

    for _ in range(2):
        replay(keeping_shop.log()[-1])

    first, *replays = keeping_shop.log()
    assert [row.replay_of_id for row in replays] == [first.id, first.id]


def test_what_cannot_be_replayed_says_why(shop, make_shop):
    shop.deliver({"names": []})
    [row] = shop.log()
    stranger = make_shop()

    with shop.app.app_context():
        webhooks = webhooks_of(shop)
        with pytest.raises(ReplayRefused, match="no such row"):
            webhooks.replay(row.id + 1)
        with pytest.raises(ReplayRefused, match="GENEVA_WEBHOOK_KEEP_BODIES"):
            webhooks.replay(row.id)
    with stranger.app.app_context(), pytest.raises(ReplayRefused, match="no source 'payments'"):
        webhooks_of(stranger).replay(row.id)


def test_old_rows_are_deleted_in_batches(shop, db):
    for _ in range(5):
        shop.deliver({"names": []})
    with shop.app.app_context():
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        assert delete_older_than(db.session, datetime.now(UTC) - timedelta(days=1), 10) == 0
        assert delete_older_than(db.session, tomorrow, 3) == 3
        assert delete_older_than(db.session, tomorrow, 3) == 2
        db.session.commit()

    assert shop.log() == []


@pytest.fixture
def old_shop(make_shop):
    """A shop whose log has five rows of long ago and a recent one, and is looked at two rows at a time."""
    shop = make_shop(GENEVA_HOUSEKEEPING_BATCH_SIZE=2)
    register_payments(shop)
    for number in range(6):
        shop.deliver({"names": []}, id=f"msg_{number}")
    with shop.app.app_context():
        old = webhook_deliveries.c.event_id != "msg_5"
        long_ago = datetime.now(UTC) - timedelta(days=31)
        the_db.session.execute(update(webhook_deliveries).where(old).values(received_at=long_ago))
        the_db.session.commit()
    return shop


def test_housekeeping_deletes_rows_as_old_as_the_workflows_that_it_deletes(old_shop):
    with old_shop.app.app_context():
        summary = old_shop.geneva.run_housekeeping()

    assert (summary.webhook_deliveries_cleaned_up, summary.failures) == (5, 0)
    assert [row.event_id for row in old_shop.log()] == ["msg_5"]


def test_without_a_retention_the_log_is_kept(make_shop):
    shop = make_shop(GENEVA_DELETE_COMPLETED_WORKFLOWS_AFTER=None)
    register_payments(shop)
    shop.deliver({"names": []})
    with shop.app.app_context(), time_machine.travel(datetime.now(UTC) + timedelta(days=400)):
        assert shop.geneva.run_housekeeping().webhook_deliveries_cleaned_up == 0

    assert len(shop.log()) == 1


def test_housekeeping_goes_on_where_the_log_is_not_there_yet(old_shop, db, caplog):
    with old_shop.app.app_context():
        db.session.execute(text("ALTER TABLE geneva_webhook_deliveries RENAME TO deliveries_of_the_test"))
        db.session.commit()
        try:
            summary = old_shop.geneva.run_housekeeping()
        finally:
            db.session.rollback()
            db.session.execute(text("ALTER TABLE deliveries_of_the_test RENAME TO geneva_webhook_deliveries"))
            db.session.commit()

    assert summary.failures == 0
    assert "flask db upgrade" in caplog.text


def test_the_newest_rows_come_first(shop, db):
    shop.deliver({"names": []}, id="one")
    shop.deliver({"workflow": 999}, id="two")
    with shop.app.app_context():
        assert [row.event_id for row in latest(db.session, source="payments", outcome=None, limit=9)] == ["two", "one"]
        assert [row.event_id for row in latest(db.session, source=None, outcome="ignored", limit=9)] == ["one"]
        assert latest(db.session, source="nobody", outcome=None, limit=9) == []


def test_texts_are_cut_to_what_a_column_holds():
    assert storable("x" * 300) == "x" * 255
    assert storable("a\0b\ud800") == "a?b?"


def test_headers_that_may_hold_a_secret_are_never_kept():
    given = Headers(
        {"Cookie": "1", "X-Auth-Token": "1", "Stripe-Signature": "1", "X-Hub-Signature-256": "1", "Host": "h"}
    )

    assert keepable_headers(given) == {"Host": "h"}
