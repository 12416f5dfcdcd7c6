"""The rows of the answer table, at the built-in endpoint."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from flask_geneva.records.tables import workflows


@pytest.mark.parametrize(
    "payload", [{"a": [1, None]}, [1], "text", 0, 0.5, True, None, {"$bytes": "AA=="}, "\ud800 \0"]
)
def test_any_json_value_is_a_payload_and_comes_back_as_it_was(shop, payload):
    workflow = shop.start()

    response = shop.signal(workflow, "paid", payload)

    assert response.status_code == 202
    assert response.json.keys() == {"signal_id", "name", "state", "duplicate"}
    assert shop.signals(workflow) == [("paid", payload)]


def test_the_key_is_idempotency_key_if_it_is_sent_and_else_the_message_id(shop):
    workflow = shop.start()
    first = shop.signal(workflow, "paid", 1)

    assert shop.signal(workflow, "paid", 1).json == first.json | {"duplicate": True}
    assert shop.signal(workflow, "paid", 1, Idempotency_Key="other").status_code == 202
    assert shop.signal(workflow, "paid", 1, Idempotency_Key="other").status_code == 200
    assert shop.signal(workflow, "paid", 1, Idempotency_Key="").json == first.json | {"duplicate": True}


@pytest.mark.parametrize("key", ["x" * 256, "nul\x00"])
def test_a_key_that_cannot_be_stored_is_400(shop, key):
    assert shop.signal(shop.start(), "paid", 1, Idempotency_Key=key).status_code == 400


@pytest.mark.parametrize("identity", ["0", "999", "-1", "abc", "1.0", "9" * 30, "%00", "\u0661"])
def test_an_unknown_workflow_is_404(shop, identity):
    assert shop.signal(identity, "paid", 1).status_code == 404


@pytest.mark.parametrize("name", ["refunded", "Paid", "paid ", "x" * 300, "%00", "%ed%a0%80", "paid/", "a//b"])
def test_a_name_that_no_step_could_ever_take_is_404(shop, name):
    workflow = shop.start()

    response = shop.signal(workflow, name, 1)

    assert response.status_code == 404
    assert response.content_type == "application/problem+json"
    assert shop.signals(workflow) == []


def test_a_name_may_hold_what_a_url_escapes(shop):
    response = shop.signal(shop.start(), "parcel%2Fhanded%20over", 1)

    assert (response.status_code, response.json["name"]) == (202, "parcel/handed over")


def test_a_workflow_whose_class_is_not_loaded_buffers_whatever_comes(shop, db):
    workflow = shop.start()
    with shop.app.app_context():
        db.session.execute(update(workflows).values(type="GoneWithADeploy"))
        db.session.commit()

    response = shop.signal(workflow, "anything", 1)

    assert (response.status_code, response.json["state"]) == (202, "pending")


def test_without_secrets_the_endpoint_is_closed(make_shop):
    shop = make_shop(GENEVA_WEBHOOK_SECRETS=[])
    workflow = shop.start()

    assert shop.signal(workflow, "paid", 1).status_code == 404
    assert shop.client.get(f"/geneva/workflows/{workflow}/signals/paid").status_code == 404


def test_an_unsigned_request_learns_nothing_of_what_exists(shop):
    workflow = shop.start()

    for path in (f"/workflows/{workflow}/signals/paid", "/workflows/999/signals/paid", "/workflows/abc/signals/x"):
        assert shop.post(path, b"1", headers={}).status_code == 401


def test_refusals_of_the_request_are_those_of_the_table(shop, db):
    workflow = shop.start()
    path = f"/workflows/{workflow}/signals/paid"

    assert shop.client.get(f"/geneva{path}").status_code == 405
    assert shop.client.options(f"/geneva{path}").allow == {"POST", "OPTIONS"}
    assert shop.post(path, b"1", content_type="text/plain").status_code == 415
    assert shop.post(path, b" " * 131073, headers={}).status_code == 413
    assert shop.signal(workflow, "paid", b"{").status_code == 400
    assert shop.signal(workflow, "paid", b"\xff").status_code == 400
    with shop.app.app_context():
        shop.workflow(workflow).cancel()
        db.session.commit()
    assert shop.signal(workflow, "paid", 1).status_code == 409


def test_a_matcher_that_raises_is_500(shop):
    workflow = shop.start()

    assert shop.signal(workflow, "paid", "boom").status_code == 500
    assert shop.signals(workflow) == []


def test_a_payload_that_grows_over_the_limit_when_stored_is_413(make_shop):
    shop = make_shop(GENEVA_MAX_SIGNAL_PAYLOAD_SIZE=100)

    assert shop.signal(shop.start(), "paid", b"[" + b"-0.0," * 15 + b"0]").status_code == 413


def test_what_another_application_is_configured_with_does_not_matter(make_shop):
    other = make_shop(GENEVA_WEBHOOK_SECRETS=["whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"])
    shop = make_shop()
    workflow = shop.start()

    assert other.signal(workflow, "paid", 1).status_code == 401
    assert shop.signal(workflow, "paid", 1).status_code == 202


def test_the_endpoint_leaves_no_row_in_the_log_of_sources(shop):
    shop.signal(shop.start(), "paid", 1)

    assert shop.log() == []
