"""How a provider makes its HMAC: what an application says of it, checked when it is declared."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable, Mapping

from flask_geneva.errors import ConfigurationError

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLACEHOLDERS = ("{body}", "{timestamp}")
_ENCODINGS: Mapping[object, Callable[[bytes], str]] = {
    "hex": bytes.hex,
    "base64": lambda digest: base64.b64encode(digest).decode("ascii"),
}


def text(value: object, option: str) -> str:
    """Take a str."""
    if not isinstance(value, str):
        raise ConfigurationError(f"Cannot verify an HMAC with {option}={value!r}. Pass a str.")
    return value


def header_name(value: object, option: str) -> str:
    """Take the name of a header."""
    if not isinstance(value, str) or not _HEADER_NAME.fullmatch(value):
        raise ConfigurationError(
            f"Cannot verify an HMAC with {option}={value!r}. Pass the name of a header, such as 'X-Signature'."
        )
    return value


def hash_name(value: str) -> str:
    """Take the name of a hash of a fixed length."""
    try:
        hmac.new(b"key", b"", value).digest()
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"Cannot compute an HMAC with algorithm {value!r}. Use a hash such as 'sha256'."
        ) from error
    return value


def encoder(encoding: str) -> Callable[[bytes], str]:
    """Take the name of an encoding; answer what writes a digest in it."""
    if encoding not in _ENCODINGS:
        raise ConfigurationError(f"Cannot verify an HMAC in encoding {encoding!r}. Use 'hex' or 'base64'.")
    return _ENCODINGS[encoding]


def parts_signed(signed: str, timestamp_header: str | None) -> list[str]:
    """Split what the HMAC covers into its placeholders and what is between them."""
    parts = [part for part in re.split(r"(\{\w*\})", text(signed, "signed")) if part]
    unknown = [part for part in parts if part.startswith("{") and part not in _PLACEHOLDERS]
    if unknown:
        raise ConfigurationError(
            f"Cannot verify an HMAC over {signed!r}: {unknown[0]!r} stands for nothing. Use '{{body}}' and "
            f"'{{timestamp}}'."
        )
    if "{body}" not in parts:
        raise ConfigurationError(f"Cannot verify an HMAC over {signed!r}: the body is not in it. Put '{{body}}' in.")
    if "{timestamp}" in parts and timestamp_header is None:
        raise ConfigurationError(f"Cannot verify an HMAC over {signed!r} without a time. Pass timestamp_header=.")
    return parts
