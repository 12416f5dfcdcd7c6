"""The routes: a request becomes an event, the event signals, the signals an answer. Commits all, or rolls all back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, current_app, got_request_exception, request
from sqlalchemy import insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from werkzeug.datastructures import Headers
from werkzeug.exceptions import MethodNotAllowed

from flask_geneva.engine.runtime import Runtime
from flask_geneva.errors import GenevaError
from flask_geneva.webhooks.bodies import MalformedRequest, parse_json, read_body
from flask_geneva.webhooks.delivery_log import WebhookDelivery, webhook_deliveries
from flask_geneva.webhooks.problems import ALLOWED, NotJson, TargetMissing, problem_of
from flask_geneva.webhooks.receiving import Receipt, deliver_to_workflow, hand_over
from flask_geneva.webhooks.reception import Reception
from flask_geneva.webhooks.refusal_budget import RefusalBudget
from flask_geneva.webhooks.sources import WebhookEvent, WebhookSource, WebhookSources, check_secrets
from flask_geneva.webhooks.verifiers import StandardWebhook

logger = logging.getLogger(__name__)

BLUEPRINT = "geneva_webhooks"
# GitHub's largest delivery; it bounds memory where GENEVA_MAX_SIGNAL_PAYLOAD_SIZE is None.
LARGEST_BODY = 25 * 2**20
# All of them reach the views, so that 405 is a problem document like every other refusal.
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY")


class ReplayRefused(GenevaError):
    """A row of the delivery log cannot be handed to its handler again."""


class Webhooks:
    """The webhooks of one application."""

    def __init__(self, runtime: Runtime, sources: WebhookSources) -> None:
        self._runtime = runtime
        self._sources = sources
        self._settings = runtime.settings
        self._built_in = StandardWebhook(runtime.settings.webhook_secrets, tolerance=runtime.settings.webhook_tolerance)
        self._budget = RefusalBudget()

    def check_secrets(self) -> None:
        """Refuse secrets that are missing or of the wrong form, of the sources and of the built-in endpoint.

        :raises ConfigurationError: naming the source or the config key, and never the secret.
        """
        app = self._runtime.app
        if self._settings.webhook_secrets:
            check_secrets(self._built_in, app.config, "the built-in signal endpoint from 'GENEVA_WEBHOOK_SECRETS'")
        self._sources.serve(app)

    def receive(self, source: str) -> Response:
        """Take an event of a provider."""
        found = self._sources.get(source)
        if found is None:
            return problem_of(TargetMissing("There is no webhook source of this name.")).answer()
        if request.method == "OPTIONS":
            return _options()
        reception = Reception(source=source, received_at=self._runtime.now())
        response = self._answer(reception, lambda: self._read_event(found, reception), lambda e: hand_over(found, e))
        self._log(reception)
        return response

    def receive_signal(self, workflow_id: str, name: str) -> Response:
        """Take a signed signal of the application's own services for one workflow."""
        if not self._settings.webhook_secrets:
            return problem_of(TargetMissing("This endpoint has no secrets and is closed.")).answer()
        if request.method == "OPTIONS":
            return _options()
        reception = Reception(source=None, received_at=self._runtime.now())
        key = request.headers.get("Idempotency-Key")
        return self._answer(
            reception,
            lambda: self._read_signal(reception),
            lambda event: deliver_to_workflow(self._runtime.session(), workflow_id, name, event, key),
        )

    def replay(self, delivery_id: int) -> Reception:
        """Hand a kept body to its handler again, whatever its age; commits, and leaves a row of its own.

        What was delivered already comes back as a duplicate, by the id of the event.

        :raises ReplayRefused: no such row, no body kept, or the source is gone.
        """
        row = self._runtime.session().get(WebhookDelivery, delivery_id)
        if row is None:
            raise ReplayRefused(f"Cannot replay webhook delivery #{delivery_id}: there is no such row.")
        source = self._sources.get(row.source)
        if source is None:
            raise ReplayRefused(
                f"Cannot replay webhook delivery #{delivery_id}: no source '{row.source}' is registered. Import the "
                f"module that registers it."
            )
        event = _kept_event(row)
        reception = Reception(
            source=row.source,
            received_at=self._runtime.now(),
            body=row.body,
            event=event,
            replay_of_id=row.replay_of_id or row.id,
        )
        self._answer(reception, lambda: event, lambda kept: hand_over(source, kept))
        self._log(reception)
        return reception

    @property
    def _payload_limit(self) -> int:
        return self._settings.max_signal_payload_size or LARGEST_BODY

    @property
    def _body_limit(self) -> int:
        return self._settings.webhook_max_body_size or self._payload_limit

    def _read_event(self, source: WebhookSource, reception: Reception) -> WebhookEvent:
        _require_json_post()
        reception.body = read_body(request, self._body_limit)
        event = source.verifier.verify(request)
        if not isinstance(event, WebhookEvent):
            raise TypeError(
                f"The verifier of webhook source '{source.name}' answered a {type(event).__name__}. "
                f"Return a WebhookEvent, or raise InvalidSignature."
            )
        reception.event = event
        if not isinstance(event.data, dict):
            raise MalformedRequest("The body is not a JSON object.")
        return event

    def _read_signal(self, reception: Reception) -> WebhookEvent:
        _require_json_post()
        reception.body = read_body(request, self._payload_limit)
        reception.event = self._built_in.verify(request)
        return reception.event

    def _answer(
        self, reception: Reception, read: Callable[[], WebhookEvent], handle: Callable[[WebhookEvent], Receipt]
    ) -> Response:
        try:
            receipt = handle(read())
            self._runtime.session().commit()
        except Exception as error:
            # Also where there is no event yet: what a verifier or a function of the application that runs before
            # requests has left open would keep the log waiting, for a connection or for SQLite's only writer.
            self._roll_back()
            return _fail(error, reception)
        reception.receipt = receipt
        members = receipt.as_json()
        body = None if members is None else current_app.json.dumps(members)
        return Response(body, receipt.status, content_type="application/json")

    def _roll_back(self) -> None:
        try:
            self._runtime.session().rollback()
        except SQLAlchemyError:
            # The connection is gone, and with it the transaction.
            logger.warning("A webhook's transaction could not be rolled back.", exc_info=True)

    def _log(self, reception: Reception) -> None:
        if reception.event is None and not self._budget.take(str(reception.source), reception.received_at):
            return
        try:
            row = insert(webhook_deliveries).values(**reception.row(keep_body=self._settings.webhook_keep_bodies))
            # A session of its own: what else the request left in the application's is not ours to commit.
            with Session(self._runtime.session().get_bind(WebhookDelivery)) as session:
                session.execute(row)
                session.commit()
        except Exception:
            # The event is handled, or refused, by now, whatever the log makes of it.
            logger.warning("A request to %s left no row in the log of deliveries.", reception, exc_info=True)


def register(runtime: Runtime, sources: WebhookSources) -> None:
    """Put the routes below ``GENEVA_URL_PREFIX``, out of reach of the application's CSRF protection.

    :raises ConfigurationError: secrets are missing or of the wrong form.
    """
    webhooks = Webhooks(runtime, sources)
    webhooks.check_secrets()
    runtime.app.register_blueprint(_blueprint(webhooks), url_prefix=runtime.settings.url_prefix)


def _blueprint(webhooks: Webhooks) -> Blueprint:
    blueprint = Blueprint(BLUEPRINT, __name__)
    blueprint.add_url_rule(
        "/webhooks/<source>", "receive", webhooks.receive, methods=_METHODS, provide_automatic_options=False
    )
    blueprint.add_url_rule(
        "/workflows/<workflow_id>/signals/<path:name>",
        "receive_signal",
        webhooks.receive_signal,
        methods=_METHODS,
        provide_automatic_options=False,
        merge_slashes=False,
    )
    # Runs before every before_request function, so CSRFProtect may be initialised before us or after.
    blueprint.url_value_preprocessor(lambda endpoint, values: _exempt_from_csrf(blueprint))
    return blueprint


def _exempt_from_csrf(blueprint: Blueprint) -> None:
    protection: Any = current_app.extensions.get("csrf")
    # Flask-SeaSurf sits at the same place and exempts views only.
    if any(cls.__module__ == "flask_wtf.csrf" for cls in type(protection).__mro__):
        protection.exempt(blueprint)


def _options() -> Response:
    return Response(headers=ALLOWED)


def _require_json_post() -> None:
    if request.method != "POST":
        raise MethodNotAllowed
    if not request.is_json:
        raise NotJson("The content type is not application/json.")


def _kept_event(row: WebhookDelivery) -> WebhookEvent:
    if row.body is None:
        raise ReplayRefused(
            f"Cannot replay webhook delivery #{row.id}: its body was not kept. Set 'GENEVA_WEBHOOK_KEEP_BODIES' for "
            f"those to come; bodies that were not verified are never kept."
        )
    return WebhookEvent(
        id=row.event_id,
        timestamp=row.sent_at,
        type=row.event_type,
        data=parse_json(row.body),
        headers=Headers(row.headers or {}),
        body=row.body,
    )


def _fail(error: Exception, reception: Reception) -> Response:
    problem = problem_of(error)
    reception.problem = problem
    reception.error = error
    if problem.status >= 500:
        logger.error("A request to %s could not be handled.", reception, exc_info=error)
        app: Any = current_app
        got_request_exception.send(app._get_current_object(), _async_wrapper=current_app.ensure_sync, exception=error)
    else:
        logger.info("A request to %s was refused with %s: %s", reception, problem.status, problem.detail)
    return problem.answer()
