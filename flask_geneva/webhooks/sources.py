"""Webhook sources: the event that a provider sent, what a handler answers, and the registry of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from flask import Flask, Request
from werkzeug.datastructures import Headers

from flask_geneva.errors import ConfigurationError
from flask_geneva.workflow import NO_PAYLOAD, Workflow


@dataclass(frozen=True, kw_only=True)
class WebhookEvent:
    """One verified event of a provider.

    ``id`` is None where the provider sends none; a redelivery can then not be told from a second event.
    ``timestamp`` is aware, and None where the provider sends none.
    """

    id: str | None
    timestamp: datetime | None
    type: str | None
    data: Any = field(repr=False)
    headers: Headers | Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class Delivery:
    """A signal that a webhook handler wants delivered.

    Name and payload are as in ``Workflow.signal``; the idempotency key defaults to the id of the event. A workflow of
    None answers the provider with 404.
    """

    workflow: Workflow[Any] | None
    name: str
    payload: Any = field(default_factory=lambda: NO_PAYLOAD, repr=False)
    idempotency_key: str | None = None


class Verifier(Protocol):
    """What tells a provider's requests from anybody's; an application can write its own."""

    def verify(self, request: Request) -> WebhookEvent:
        """Answer the event of a request, or raise :exc:`InvalidSignature`."""


WebhookHandler: TypeAlias = Callable[[WebhookEvent], Delivery | list[Delivery] | None]
AnyHandler = TypeVar("AnyHandler", bound=WebhookHandler)


@dataclass(frozen=True, kw_only=True)
class WebhookSource:
    """A name in the URL, who may send to it, and what to do with an event."""

    name: str
    verifier: Verifier
    handler: WebhookHandler = field(repr=False)


class WebhookSources:
    """The sources of one ``Geneva`` object, shared by the applications that it serves."""

    def __init__(self) -> None:
        self._sources: dict[str, WebhookSource] = {}
        # Applications live shorter than the extension object in many test suites.
        self._apps: WeakSet[Flask] = WeakSet()

    def __iter__(self) -> Iterator[WebhookSource]:
        return iter(self._sources.values())

    def get(self, name: str) -> WebhookSource | None:
        """Answer the source of this name, if there is one."""
        return self._sources.get(name)

    def register(self, name: str, verifier: Verifier) -> Callable[[AnyHandler], AnyHandler]:
        """Make a decorator that registers a handler; what is wrong with name or secrets is raised at once.

        :raises ConfigurationError: also for secrets that the config of an application already served lacks.
        """
        self._check_name(name)
        _check_verifier(name, verifier)
        for app in self._apps:
            check_secrets(verifier, app.config, f"webhook source '{name}'")

        def register_handler(handler: AnyHandler) -> AnyHandler:
            self._check_name(name)
            self._sources[name] = WebhookSource(name=name, verifier=verifier, handler=handler)
            return handler

        return register_handler

    def serve(self, app: Flask) -> None:
        """Check the secrets of every source, present and later ones, against the config of an application."""
        for source in self:
            check_secrets(source.verifier, app.config, f"webhook source '{source.name}'")
        self._apps.add(app)

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or not name or "/" in name:
            raise ConfigurationError(
                f"Cannot register webhook source {name!r}: it is part of a URL. Use a non-empty str without '/'."
            )
        if name in self._sources:
            raise ConfigurationError(
                f"Cannot register webhook source '{name}': it is registered already. Choose another name."
            )


def check_secrets(verifier: Verifier, config: Mapping[str, Any], owner: str) -> None:
    """Let a verifier that can do so check its secrets against a config; own verifiers need no ``check``."""
    check = getattr(verifier, "check", None)
    if check is not None:
        _named(owner, check, config)


def _check_verifier(name: str, verifier: Verifier) -> None:
    if isinstance(verifier, type) or not callable(getattr(verifier, "verify", None)):
        raise ConfigurationError(
            f"Cannot register webhook source '{name}': {verifier!r} is not a verifier. Pass an object with "
            f"verify(request), such as StandardWebhook(secrets=[...])."
        )
    check_form = getattr(verifier, "check_form", None)
    if check_form is not None:
        _named(f"webhook source '{name}'", check_form)


def _named(owner: str, check: Callable[..., None], *arguments: Any) -> None:
    try:
        check(*arguments)
    except ConfigurationError as error:
        raise ConfigurationError(f"Cannot set up {owner}: {error}") from error
