"""Request bodies: read no further than a limit, and parsed strictly."""

from __future__ import annotations

import json
from io import BytesIO
from math import isfinite
from typing import IO, Any, NoReturn

from flask import Request
from werkzeug.exceptions import RequestEntityTooLarge

from flask_geneva.errors import GenevaError
from flask_geneva.records.values import MAX_DEPTH

# A handler may put a few levels of its own around what it received.
DEEPEST_BODY = MAX_DEPTH - 10
_PIECE = 2**16
_TOO_DEEP = f"The body is nested deeper than {DEEPEST_BODY} levels."


class MalformedRequest(GenevaError):
    """The body of a webhook request, or another part of it, cannot be read; the sender is answered 400."""


def read_body(request: Request, limit: int) -> bytes:
    """Read the raw body, which stays readable as ``request.get_data()``; stop one byte above the limit.

    :raises RequestEntityTooLarge: also where ``MAX_CONTENT_LENGTH`` of the application is smaller than the limit.
    """
    allowed = min(limit, request.max_content_length) if request.max_content_length is not None else limit
    if request.content_length is not None and request.content_length > allowed:
        raise RequestEntityTooLarge
    # Werkzeug cuts a stream without Content-Length off at its limit and does not say so; the byte above ours does.
    request.max_content_length = allowed + 1
    # Counted here too: a stream that the application has looked at before knows nothing of the limit.
    request.stream = BytesIO(_read_up_to(request.stream, allowed + 1))
    body = request.get_data()
    if len(body) > allowed:
        raise RequestEntityTooLarge
    return body


def _read_up_to(stream: IO[bytes], size: int) -> bytes:
    parts = []
    while size and (part := stream.read(min(size, _PIECE))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def parse_json(body: bytes) -> Any:
    """Parse a body as JSON of RFC 8259: UTF-8, no NaN, no infinity, numbers and nesting that can be stored."""
    try:
        value = json.loads(body.decode(), parse_constant=_refuse_constant, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise MalformedRequest("The body is not UTF-8.") from error
    except ValueError as error:
        raise MalformedRequest("The body is not JSON.") from error
    except RecursionError as error:
        raise MalformedRequest(_TOO_DEEP) from error
    if _depth(value) > DEEPEST_BODY:
        raise MalformedRequest(_TOO_DEEP)
    return value


def _depth(value: Any) -> int:
    """Count the levels of containers, one at a time, since a recursion would end where the parser's does."""
    depth, level = 0, [value]
    while containers := [part for part in level if isinstance(part, dict | list)]:
        depth += 1
        level = [part for each in containers for part in (each.values() if isinstance(each, dict) else each)]
    return depth


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError("the number is too large")
    return number
