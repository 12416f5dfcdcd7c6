"""The rows of the answer table, at a source."""

from __future__ import annotations

import asyncio
import gzip
import logging
import threading
import time

import pytest
from flask import abort, got_request_exception
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import ServiceUnavailable

from flask_geneva import MigrationMissing
from flask_geneva.webhooks import Delivery, InvalidSignature, StandardWebhook, WebhookEvent
from tests.webhooks.signing import SECRET


def problem(response):
    """The status of a problem document, after a look at its form."""
    assert response.content_type == "application/problem+json"
    assert response.json.keys() == {"type", "title", "status", "detail"}
    assert response.json["status"] == response.status_code
    return response.status_code


@pytest.fixture
def reported(shop):
    """The errors that were sent through ``got_request_exception``."""
    errors = []

    def remember(app, exception):
        errors.append(exception)

    with got_request_exception.connected_to(remember, shop.app):
        yield errors


@pytest.fixture
def handled_by(shop):
    """Registers a source 'own' with this handler."""
    return lambda handler, verifier=None: shop.geneva.webhook("own", verifier or StandardWebhook(SECRET))(handler)


def test_an_event_becomes_a_signal(shop):
    workflow = shop.start()

    response = shop.deliver({"workflow": workflow, "payload": {"amount": 5}})

    assert response.status_code == 202
    assert response.json["name"] == "paid"
    assert response.json["state"] == "claimed"
    assert response.json["duplicate"] is False
    assert isinstance(response.json["signal_id"], int)
    assert shop.signals(workflow) == [("paid", {"amount": 5})]


def test_an_event_that_no_parked_step_waits_for_is_buffered(shop):
    workflow = shop.start()

    response = shop.deliver({"workflow": workflow, "names": ["parcel/handed over"]})

    assert response.status_code == 202
    assert [signal["state"] for signal in response.json["signals"]] == ["pending"]


def test_a_redelivery_is_a_duplicate(shop):
    workflow = shop.start()
    first = shop.deliver({"workflow": workflow})

    second = shop.deliver({"workflow": workflow})

    assert second.status_code == 200
    assert second.json == first.json | {"duplicate": True}
    assert len(shop.signals(workflow)) == 1


def test_a_key_with_another_payload_is_a_duplicate_and_a_warning(shop, caplog):
    workflow = shop.start()
    shop.deliver({"workflow": workflow, "payload": "first"})

    response = shop.deliver({"workflow": workflow, "payload": "second"})

    assert (response.status_code, response.json["duplicate"]) == (200, True)
    assert shop.signals(workflow) == [("paid", "first")]
    assert "another payload" in caplog.text
    assert "first" not in caplog.messages[-1].replace("the first one", "")


def test_an_event_of_no_interest_is_204_and_what_the_handler_wrote_is_committed(shop, handled_by, db):
    workflow = shop.start()
    handled_by(lambda event: db.session.execute(text("UPDATE geneva_workflows SET hero_type = 'seen'")) and None)

    response = shop.deliver({}, source="own")

    assert (response.status_code, response.data) == (204, b"")
    with shop.app.app_context():
        assert shop.workflow(workflow).hero_type == "seen"


def test_several_deliveries_are_answered_in_their_order(shop):
    workflow = shop.start()

    response = shop.deliver({"workflow": workflow, "names": ["parcel/handed over", "paid"]})

    assert response.status_code == 202
    assert [signal["name"] for signal in response.json["signals"]] == ["parcel/handed over", "paid"]
    again = shop.deliver({"workflow": workflow, "names": ["parcel/handed over", "paid"]})
    assert again.status_code == 200
    assert [signal["duplicate"] for signal in again.json["signals"]] == [True, True]


def test_a_list_in_which_one_signal_is_known_is_202(shop):
    workflow = shop.start()
    shop.deliver({"workflow": workflow, "names": ["paid"]})

    response = shop.deliver({"workflow": workflow, "names": ["paid", "parcel/handed over"]})

    assert response.status_code == 202
    assert [signal["duplicate"] for signal in response.json["signals"]] == [True, False]
    assert shop.log()[-1].outcome == "delivered"


def test_several_workflows_are_locked_in_the_order_of_their_ids_whatever_the_handlers_order(shop, handled_by):
    first, second = shop.start(), shop.start()
    handled_by(lambda event: [Delivery(shop.workflow(found), "paid") for found in (second, first)])

    of_second, of_first = shop.deliver({}, source="own").json["signals"]

    assert of_first["signal_id"] < of_second["signal_id"]
    assert [each["workflow_id"] for each in shop.log()[-1].signals] == [second, first]


def test_several_deliveries_are_all_or_nothing(shop, handled_by):
    workflow = shop.start()
    handled_by(lambda event: [Delivery(shop.workflow(workflow), "paid"), Delivery(None, "paid")])

    assert problem(shop.deliver({}, source="own")) == 404
    assert shop.signals(workflow) == []


def test_an_empty_list_is_of_no_interest(shop, handled_by):
    handled_by(lambda event: [])

    assert shop.deliver({}, source="own").status_code == 204


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-signature": None},
        {"webhook-id": None},
        {"webhook-timestamp": None},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "nonsense"},
        {"webhook-timestamp": str(int(time.time()) - 1000)},
        {"webhook-timestamp": str(int(time.time()) + 1000)},
        {"webhook-timestamp": "yesterday"},
        {"webhook-id": "another"},
    ],
)
def test_a_request_that_is_not_signed_as_it_must_be_is_401(shop, sign_standard, caplog, change):
    caplog.set_level(logging.DEBUG)
    handler_ran = []
    shop.geneva.webhook("own", StandardWebhook(SECRET))(handler_ran.append)
    headers = {name: text for name, text in (sign_standard(b"{}") | change).items() if text is not None}

    response = shop.post("/webhooks/own", b"{}", headers=headers)

    assert problem(response) == 401
    assert response.headers["WWW-Authenticate"]
    assert handler_ran == []
    for secret in (SECRET, SECRET.removeprefix("whsec_"), sign_standard(b"{}")["webhook-signature"]):
        assert secret not in caplog.text
        assert secret not in response.text


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[1]", b"null", b'"text"', b"NaN", b'{"a": 1e999}', b"[" * 9999])
def test_a_body_that_is_no_json_object_is_400(shop, body):
    assert problem(shop.deliver(body)) == 400


def test_a_compressed_body_is_not_unpacked(shop, sign_standard):
    bomb = gzip.compress(b"{" + b" " * 10**7 + b"}")

    response = shop.post("/webhooks/payments", bomb, headers=sign_standard(bomb) | {"Content-Encoding": "gzip"})

    assert problem(response) == 400


def test_an_unsigned_body_that_is_not_json_is_401(shop):
    assert problem(shop.post("/webhooks/payments", b"{", headers={})) == 401


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "TRACE"])
def test_another_method_is_405(shop, method):
    response = shop.client.open("/geneva/webhooks/payments", method=method)

    assert response.status_code == 405
    assert response.allow == {"POST", "OPTIONS"}
    if method != "HEAD":
        assert problem(response) == 405


def test_options_says_what_is_allowed(shop):
    response = shop.client.options("/geneva/webhooks/payments")

    assert (response.status_code, response.allow) == (200, {"POST", "OPTIONS"})
    assert shop.log() == []


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/x-www-form-urlencoded", "json", "x" * 300]
)
def test_a_content_type_that_is_not_json_is_415(shop, content_type):
    assert problem(shop.deliver({}, content_type=content_type)) == 415


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/cloudevents+json"])
def test_content_types_of_json_are_taken(shop, content_type):
    assert shop.deliver({"names": []}, content_type=content_type).status_code == 204


def test_a_body_over_the_limit_is_413_even_unsigned(make_shop):
    shop = make_shop(GENEVA_MAX_SIGNAL_PAYLOAD_SIZE=100)
    shop.geneva.webhook("own", StandardWebhook(SECRET))(lambda event: None)

    assert problem(shop.post("/webhooks/own", b" " * 101, headers={})) == 413
    assert shop.deliver(b"{" + b" " * 98 + b"}", source="own").status_code == 204


def test_a_source_may_read_more_than_a_payload_may_hold(make_shop):
    shop = make_shop(GENEVA_MAX_SIGNAL_PAYLOAD_SIZE=100, GENEVA_WEBHOOK_MAX_BODY_SIZE=200)
    workflow = shop.start()

    @shop.geneva.webhook("own", StandardWebhook(SECRET))
    def pass_it_on(event):
        return Delivery(shop.workflow(workflow), "paid", payload=event.data.get("payload"))

    assert shop.deliver({"more": "x" * 150}, source="own").status_code == 202
    assert problem(shop.deliver({"payload": "x" * 150}, id="msg_2", source="own")) == 413
    assert len(shop.signals(workflow)) == 1


def test_an_unknown_source_is_404(shop):
    assert problem(shop.deliver({}, source="nobody")) == 404
    assert shop.log() == []


def test_a_workflow_that_does_not_exist_yet_is_404(shop):
    assert problem(shop.deliver({"workflow": 999})) == 404


def test_a_new_event_for_an_ended_workflow_is_409_and_a_known_one_is_200(shop, db):
    workflow = shop.start()
    shop.deliver({"workflow": workflow})
    with shop.app.app_context():
        shop.workflow(workflow).cancel()
        db.session.commit()

    assert problem(shop.deliver({"workflow": workflow}, id="msg_2")) == 409
    assert shop.deliver({"workflow": workflow}).json["duplicate"] is True


def test_a_handler_that_raises_is_500_rolled_back_and_reported(shop, handled_by, reported, db):
    workflow = shop.start()

    @handled_by
    def fail(event):
        db.session.execute(text("UPDATE geneva_workflows SET hero_type = 'seen'"))
        raise RuntimeError("the handler's own words")

    response = shop.deliver({}, source="own")

    assert problem(response) == 500
    assert "own words" not in response.text
    assert [str(error) for error in reported] == ["the handler's own words"]
    with shop.app.app_context():
        assert shop.workflow(workflow).hero_type is None


def test_a_matcher_that_raises_is_500_and_nothing_is_stored(shop, reported):
    workflow = shop.start()

    assert problem(shop.deliver({"workflow": workflow, "payload": "boom"})) == 500
    assert isinstance(reported[0], ZeroDivisionError)
    assert shop.signals(workflow) == []


@pytest.mark.parametrize("answer", ["text", 7, {"a": 1}, [None], Delivery("no workflow", "paid"), object()])
def test_a_handler_that_answers_something_else_is_500(shop, handled_by, reported, answer):
    handled_by(lambda event: answer)

    assert problem(shop.deliver({}, source="own")) == 500
    assert isinstance(reported[0], TypeError)


def test_a_database_error_in_the_handler_is_503(shop, handled_by, reported, db):
    handled_by(lambda event: db.session.execute(text("SELECT * FROM no_such_table")))

    response = shop.deliver({}, source="own")

    assert problem(response) == 503
    assert int(response.headers["Retry-After"]) > 0
    assert len(reported) == 1


@pytest.mark.parametrize("error", [PoolTimeout("no connection is free"), MigrationMissing("a table")])
def test_what_the_database_is_not_ready_for_is_503(shop, handled_by, reported, error):
    @handled_by
    def fail(event):
        raise error

    response = shop.deliver({}, source="own")

    assert (problem(response), reported) == (503, [error])
    assert response.headers["Retry-After"]


def test_an_unreachable_database_is_503(make_shop, monkeypatch, db):
    shop = make_shop()
    shop.geneva.webhook("own", StandardWebhook(SECRET))(lambda event: db.session.execute(text("SELECT 1")) and None)

    def refuse(*arguments):
        raise OperationalError("connect", {}, ConnectionRefusedError())

    with shop.app.app_context():
        db.engine.dispose()
        monkeypatch.setattr(db.engine.pool, "_creator", refuse)
        monkeypatch.setattr(db.engine.pool, "connect", refuse)

    response = shop.deliver({}, source="own")

    assert problem(response) == 503
    assert response.headers["Retry-After"]


def test_an_unreachable_redis_is_no_error(make_shop, caplog):
    shop = make_shop(GENEVA_ENQUEUE=True, GENEVA_REDIS_URL="redis://127.0.0.1:1/0")
    workflow = shop.start()

    response = shop.signal(workflow, "paid", 1)

    assert (response.status_code, response.json["state"]) == (202, "claimed")
    assert shop.signals(workflow) == [("paid", 1)]
    with shop.app.app_context():
        assert shop.workflow(workflow).current_execution.state == "scheduled"


def test_a_handler_may_abort_with_a_status_of_its_own(shop, handled_by, reported):
    handled_by(lambda event: abort(410, "That shop has closed."))

    response = shop.deliver({}, source="own")

    assert problem(response) == 410
    assert response.json["detail"] == "That shop has closed."
    assert reported == []


def test_a_handler_that_aborts_with_a_failure_says_when_to_try_again(shop, handled_by, reported):
    def busy(event):
        raise ServiceUnavailable(retry_after=7)

    handled_by(busy)

    response = shop.deliver({}, source="own")

    assert (problem(response), response.headers["Retry-After"]) == (503, "7")
    assert [type(error) for error in reported] == [ServiceUnavailable]
    assert [(row.outcome, row.http_status) for row in shop.log()] == [("failed", 503)]


def test_a_handler_may_be_a_coroutine_where_flask_can_run_it(shop, handled_by, monkeypatch):
    monkeypatch.setattr(shop.app, "async_to_sync", lambda function: lambda *given: asyncio.run(function(*given)))

    async def nothing(event):
        return None

    handled_by(nothing)

    assert shop.deliver({}, source="own").status_code == 204


def test_an_own_verifier_decides(shop, handled_by):
    class Token:
        def verify(self, request):
            if request.headers.get("X-Token") != "open":
                raise InvalidSignature("The token is wrong.")
            return WebhookEvent(id=None, timestamp=None, type="x", data={}, headers=request.headers, body=b"")

    handled_by(lambda event: None, Token())

    assert shop.post("/webhooks/own", b"x", headers={"X-Token": "open"}).status_code == 204
    assert problem(shop.post("/webhooks/own", b"x", headers={"X-Token": "shut"})) == 401


def test_an_own_verifier_that_fails_is_500(shop, handled_by, reported):
    class Broken:
        def verify(self, request):
            return None if request.headers.get("X-Token") else 1 / 0

    handled_by(lambda event: None, Broken())

    assert problem(shop.post("/webhooks/own", b"{}", headers={})) == 500
    assert problem(shop.post("/webhooks/own", b"{}", headers={"X-Token": "1"})) == 500
    assert [type(error) for error in reported] == [ZeroDivisionError, TypeError]


def test_two_deliveries_at_the_same_instant_make_one_signal(shop):
    workflow = shop.start()
    together = threading.Barrier(2)
    answers = []

    def deliver():
        together.wait()
        answers.append(shop.deliver({"workflow": workflow}))

    threads = [threading.Thread(target=deliver) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answer.status_code for answer in answers) == [200, 202]
    assert answers[0].json["signal_id"] == answers[1].json["signal_id"]
    assert len(shop.signals(workflow)) == 1


def test_it_works_below_a_prefix_and_an_application_root(make_shop, sign_standard):
    shop = make_shop(GENEVA_URL_PREFIX="/hooks/in/", APPLICATION_ROOT="/root")
    shop.geneva.webhook("own", StandardWebhook(SECRET))(lambda event: None)

    response = shop.client.post(
        "/hooks/in/webhooks/own", data=b"{}", headers=sign_standard(b"{}"), content_type="application/json"
    )

    assert response.status_code == 204
