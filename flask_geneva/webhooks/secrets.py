"""Secrets of webhook sources: where they come from, what form they must have, and how they stay out of texts."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from flask_geneva.errors import ConfigurationError

Secret: TypeAlias = str | bytes | Callable[[], Any]
SecretForm: TypeAlias = Callable[[str | bytes], bytes]

_CONFIG_KEY = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_REMEDY = "Pass the secret, the name of a config key, a callable, or a list of these."


class Secrets:
    """The secrets of one verifier; any of them may have signed a request.

    A string that names a config key stands for the key's value. Callables are asked at each request and never at
    start-up, since they may need a connection.

    :param form: turns one secret into the key of the HMAC, or raises ``ValueError`` saying what is wrong with it.
    """

    def __init__(self, given: Secret | Iterable[Secret], form: SecretForm) -> None:
        self._given = given if callable(given) or isinstance(given, str | bytes) else _listed(given)
        self._form = form

    def __repr__(self) -> str:
        return "Secrets(***)"

    def check_form(self) -> None:
        """Check what can be checked without a config; a string that may be a config key is left for later."""
        for where, secret in _each(self._given, "the secret", {}, ask=False):
            if not (isinstance(secret, str) and _CONFIG_KEY.fullmatch(secret)):
                self._key(where, secret)

    def check(self, config: Mapping[str, Any]) -> None:
        """Check every secret that is not a callable against the config of an application."""
        self.check_form()
        for where, secret in _each(self._given, "the secret", config, ask=False):
            self._key(where, secret)

    def keys(self, config: Mapping[str, Any]) -> list[bytes]:
        """Answer the HMAC keys that are valid at this moment, at least one."""
        return [self._key(where, secret) for where, secret in _each(self._given, "the secret", config, ask=True)]

    def _key(self, where: str, secret: object) -> bytes:
        if not secret:
            raise ConfigurationError(f"Cannot use {where}: it is missing or empty. {_REMEDY}")
        if not isinstance(secret, str | bytes):
            raise ConfigurationError(f"Cannot use {where}: it is a {type(secret).__name__}. {_REMEDY}")
        if isinstance(secret, str) and _CONFIG_KEY.fullmatch(secret):
            # Used as it stands, the name of a forgotten config key would be a secret that anybody can guess.
            raise ConfigurationError(
                f"Cannot use {where}: '{secret}' is the name of a config key that is not set. Set it, or pass the "
                f"secret as bytes if it really reads so."
            )
        try:
            return self._form(secret)
        except ValueError as error:
            raise ConfigurationError(f"Cannot use {where}: {error}.") from None


def plain_form(secret: str | bytes) -> bytes:
    """Take the text of the secret as the key."""
    if isinstance(secret, bytes):
        return secret
    if secret != secret.strip():
        raise ValueError("it begins or ends with white space, probably a line end from a file; strip it")
    return _encoded(secret)


def stripe_form(secret: str | bytes) -> bytes:
    """Take the text of a Stripe signing secret, prefix included, as the key; refuse an API key in its place."""
    if isinstance(secret, str) and secret.startswith(("sk_", "pk_", "rk_")):
        raise ValueError("it is an API key of Stripe; the endpoint's signing secret begins with 'whsec_'")
    return plain_form(secret)


def standard_form(secret: str | bytes) -> bytes:
    """Read a Standard Webhooks secret: base64, mostly after the prefix ``whsec_``; bytes are the key itself."""
    if isinstance(secret, bytes):
        return secret
    text = secret.removeprefix("whsec_")
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise ValueError("it is not a Standard Webhooks secret, which is base64, mostly after 'whsec_'")
    return key


def _encoded(secret: str) -> bytes:
    try:
        return secret.encode()
    except UnicodeEncodeError:
        raise ValueError("it cannot be written as UTF-8") from None


def _listed(given: object) -> tuple[Any, ...]:
    if isinstance(given, Iterable) and not isinstance(given, Mapping):
        return tuple(given)
    return (given,) if given is not None else ()


def _each(given: object, where: str, config: Mapping[str, Any], *, ask: bool) -> Iterator[tuple[str, object]]:
    """Yield every secret with the words that name it in an error: its place, never its text."""
    if callable(given):
        if ask:
            yield from _each(given(), f"what the callable for {where} answered", config, ask=ask)
    elif isinstance(given, str) and given in config:
        # Without the config, so that a value that names a key, perhaps its own, is not followed any further.
        yield from _each(config[given], f"the value of config key '{given}'", {}, ask=ask)
    elif isinstance(given, list | tuple | set | frozenset) and given:
        for number, one in enumerate(given, start=1):
            yield from _each(one, f"{where} number {number}", config, ask=ask)
    else:
        yield where, given
