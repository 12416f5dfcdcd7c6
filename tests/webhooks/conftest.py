"""A shop with webhooks to try, and the signatures of providers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask, Request
from sqlalchemy import select
from werkzeug.test import TestResponse

from flask_geneva import Geneva, SignalMatcher, Workflow, step
from flask_geneva.testing import perform_next_step
from flask_geneva.webhooks import Delivery, StandardWebhook, WebhookEvent
from flask_geneva.webhooks.delivery_log import WebhookDelivery
from tests.harness.databases import create_missing_tables
from tests.harness.models import db as the_db
from tests.webhooks.signing import SECRET, Headers, github_headers, standard_headers, stripe_headers


class PaymentCheck(Workflow):
    """Waits for a payment, then for a parcel."""

    may_proceed_without_hero = True

    @step(
        wait_for=SignalMatcher("paid", lambda workflow, payload: payload != "unlike" and (payload != "boom" or 1 / 0))
    )
    def take_payment(self) -> None:
        pass

    @step(wait_for="parcel/handed over")
    def follow_parcel(self) -> None:
        pass


@pytest.fixture
def sign_standard() -> Callable[..., Headers]:
    return standard_headers


@pytest.fixture
def sign_stripe() -> Callable[..., Headers]:
    return stripe_headers


@pytest.fixture
def sign_github() -> Callable[..., Headers]:
    return github_headers


@pytest.fixture
def bare_app() -> Iterator[Flask]:
    app = Flask("bare")
    with app.app_context():
        yield app


@pytest.fixture
def request_of(bare_app: Flask) -> Callable[..., Request]:
    """Make a POST of JSON that no view has seen."""

    def make(body: bytes, headers: Headers, **options: Any) -> Request:
        options.setdefault("content_type", "application/json")
        context = bare_app.test_request_context("/", method="POST", data=body, headers=headers, **options)
        return context.request

    return make


class Shop:
    """An application with a registry of sources of its own, and a client that signs."""

    def __init__(self, app: Flask, geneva: Geneva) -> None:
        self.app = app
        self.geneva = geneva
        self.client = app.test_client()

    def post(self, path: str, body: Any, *, headers: Headers | None = None, **options: Any) -> TestResponse:
        """Post raw bytes or a JSON value below the prefix, signed by Standard Webhooks unless headers are given."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        options.setdefault("content_type", "application/json")
        signed = standard_headers(raw) if headers is None else headers
        return self.client.post(f"/geneva{path}", data=raw, headers=signed, **options)

    def deliver(self, body: Any, *, id: str = "msg_1", source: str = "payments", **options: Any) -> TestResponse:
        """Post an event with this id to a source."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.post(f"/webhooks/{source}", raw, headers=standard_headers(raw, id=id), **options)

    def signal(self, workflow_id: object, name: str, payload: Any, **headers: str) -> TestResponse:
        """Post a signal to the built-in endpoint."""
        raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        signed = standard_headers(raw) | {name.replace("_", "-"): text for name, text in headers.items()}
        return self.post(f"/workflows/{workflow_id}/signals/{name}", raw, headers=signed)

    def start(self) -> int:
        """Create a workflow that is parked on its first step; answer its id."""
        with self.app.app_context():
            workflow = PaymentCheck.create(hero=None, allow_multiple=True)
            the_db.session.commit()
            perform_next_step(workflow)
            return int(workflow.id)

    def workflow(self, workflow_id: int) -> PaymentCheck:
        """Load a workflow of the session of the context in hand."""
        found = the_db.session.get(PaymentCheck, workflow_id, populate_existing=True)
        assert found is not None
        return found

    def signals(self, workflow_id: int) -> list[tuple[str, Any]]:
        """The signals that are stored for a workflow, as name and payload."""
        with self.app.app_context():
            return [(signal.name, signal.payload) for signal in self.workflow(workflow_id).signals]

    def log(self) -> list[WebhookDelivery]:
        """The rows of the delivery log, oldest first, detached."""
        with self.app.app_context():
            rows = list(the_db.session.scalars(select(WebhookDelivery).order_by(WebhookDelivery.id)))
            the_db.session.expunge_all()
            return rows


@pytest.fixture
def make_shop(database_url: str) -> Iterator[Callable[..., Shop]]:
    """Builds shops on the database of the test: ``make_shop(**config)``; ``before`` is called with the bare app."""
    apps: list[Flask] = []

    def make(before: Callable[[Flask], None] | None = None, **config: Any) -> Shop:
        app = Flask("shop")
        app.config.from_mapping(
            TESTING=True, SQLALCHEMY_DATABASE_URI=database_url, SECRET_KEY="not a secret", GENEVA_ENQUEUE=False
        )
        app.config.from_mapping({"GENEVA_WEBHOOK_SECRETS": [SECRET], **config})
        if before is not None:
            before(app)
        the_db.init_app(app)
        geneva = Geneva()
        geneva.init_app(app, the_db)
        apps.append(app)
        with app.app_context():
            create_missing_tables(the_db.engine, the_db.metadata)
        return Shop(app, geneva)

    yield make

    for app in apps:
        with app.app_context():
            the_db.engine.dispose()


@pytest.fixture
def shop(make_shop: Callable[..., Shop]) -> Shop:
    """A shop with the source 'payments', whose handler signals the workflow that the body names."""
    made = make_shop()
    register_payments(made)
    return made


def register_payments(shop: Shop) -> None:
    """Register the source 'payments'."""

    @shop.geneva.webhook("payments", StandardWebhook(secrets=[SECRET]))
    def payment_event(event: WebhookEvent) -> Delivery | list[Delivery] | None:
        names = event.data.get("names", ["paid"])
        if not names:
            return None
        workflow = the_db.session.get(PaymentCheck, event.data["workflow"])
        deliveries = [Delivery(workflow, name, payload=event.data.get("payload")) for name in names]
        return deliveries if "names" in event.data else deliveries[0]
