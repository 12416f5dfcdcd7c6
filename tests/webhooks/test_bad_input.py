"""Whatever is sent, no answer is a 5xx, and memory stays flat."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flask_geneva.webhooks import Delivery, GitHubWebhook, StandardWebhook, StripeWebhook
from tests.webhooks.signing import SECRET, github_headers, standard_headers, stripe_headers

pytestmark = pytest.mark.databases("sqlite")

TEXT = st.text(st.characters(max_codepoint=0xFF, exclude_characters="\r\n"), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=4)
BODIES = st.binary(max_size=200) | (JSON | OBJECTS).map(lambda value: json.dumps(value).encode())
NAMES = st.sampled_from(
    [
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "Stripe-Signature",
        "X-Hub-Signature-256",
        "X-GitHub-Delivery",
        "X-GitHub-Event",
        "Idempotency-Key",
        "Content-Length",
        "Content-Encoding",
        "Transfer-Encoding",
        "Accept",
    ]
)
HEADERS = st.just({}) | st.dictionaries(NAMES, TEXT, max_size=4)
IDS = st.uuids().map(str)
METHODS = st.sampled_from(["POST"] * 14 + ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
TYPES = st.sampled_from(["application/json"] * 8 + ["application/x+json", "multipart/form-data"]) | TEXT
SIGNED = {
    "/webhooks/standard": lambda body, id: standard_headers(body, id=id),
    "/webhooks/stripe": lambda body, id: stripe_headers(body),
    "/webhooks/github": lambda body, id: github_headers(body, id=id),
    "/workflows/{id}/signals/paid": lambda body, id: standard_headers(body, id=id),
    "/workflows/0/signals/paid": lambda body, id: standard_headers(body, id=id),
}
ODD_PATHS = st.builds(
    "/{}/{}/{}".format, st.sampled_from(["webhooks", "workflows", "workflows/{id}/signals"]), TEXT, TEXT
).filter(lambda path: path.count("{") == path.count("{id}") and path.count("}") == path.count("{id}"))
ROUTES = st.sampled_from(list(SIGNED.items())) | st.tuples(
    st.sampled_from([*SIGNED, "/webhooks/nobody"]) | ODD_PATHS, st.just(lambda body, id: {})
)


@pytest.fixture
def open_shop(make_shop):
    shop = make_shop(GENEVA_WEBHOOK_KEEP_BODIES=True)
    shop.workflow_id = shop.start()
    verifiers = {
        "standard": StandardWebhook(SECRET),
        "stripe": StripeWebhook("whsec_stripe"),
        "github": GitHubWebhook("It's a Secret to Everybody"),
    }
    for name, verifier in verifiers.items():
        shop.geneva.webhook(name, verifier)(
            lambda event: Delivery(shop.workflow(shop.workflow_id), "parcel/handed over", payload=event.data)
        )
    return shop


@settings(
    max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(method=METHODS, route=ROUTES, body=BODIES, headers=HEADERS, event_id=IDS, content_type=TYPES)
def test_two_thousand_odd_requests_are_answered_without_a_5xx(
    open_shop, method, route, body, headers, event_id, content_type
):
    path, sign = route
    response = open_shop.client.open(
        "/geneva" + path.format(id=open_shop.workflow_id),
        method=method,
        data=body,
        headers={**sign(body, event_id), **headers},
        content_type=content_type,
    )

    assert response.status_code < 500
    if response.status_code >= 400 and method != "HEAD" and response.content_type != "text/html; charset=utf-8":
        assert response.json["status"] == response.status_code


class Zeros:
    """A hundred megabytes that are made while they are read."""

    def __init__(self, length=100 * 2**20):
        self.left = length

    def read(self, size=-1):
        size = self.left if size < 0 else min(size, self.left)
        self.left -= size
        return bytes(size)


@pytest.mark.parametrize(
    "environ",
    [{"CONTENT_LENGTH": str(100 * 2**20)}, {"wsgi.input_terminated": True}, {}],
    ids=["length", "chunked", "none"],
)
@pytest.mark.parametrize("path", ["/webhooks/standard", "/workflows/1/signals/paid"])
def test_a_hundred_megabytes_leave_memory_flat(open_shop, path, environ):
    body = Zeros()
    post = {"method": "POST", "content_type": "application/json", "headers": standard_headers(b"")}
    open_shop.client.open(f"/geneva{path}", **post)

    tracemalloc.start()
    response = open_shop.client.open(f"/geneva{path}", environ_overrides={"wsgi.input": body, **environ}, **post)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert response.status_code == (413 if environ else 400)
    assert body.left > 99 * 2**20
    assert peak < 2 * 2**20
