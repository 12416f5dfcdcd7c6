from __future__ import annotations

import io
import tracemalloc

import pytest
from flask import Flask
from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge

from flask_geneva.webhooks import MalformedRequest
from flask_geneva.webhooks.bodies import DEEPEST_BODY, parse_json, read_body

HUNDRED_MEGABYTES = 100 * 2**20


class EndlessBody(io.RawIOBase):
    """A body of zeros that remembers how much of it was read."""

    def __init__(self, length):
        self.left = length
        self.taken = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        size = min(len(buffer), self.left)
        buffer[:size] = bytes(size)
        self.left -= size
        self.taken += size
        return size


@pytest.fixture
def post():
    app = Flask("bodies")

    def make(stream, **environ):
        with app.test_request_context(
            "/", method="POST", environ_overrides={"wsgi.input": stream, **environ}
        ) as context:
            return context.request

    make.app = app
    with app.app_context():
        yield make


CHUNKED = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}


@pytest.mark.parametrize("environ", [{"CONTENT_LENGTH": "100"}, CHUNKED], ids=["length", "chunked"])
def test_a_body_of_exactly_the_limit_is_read_whole(post, environ):
    request = post(EndlessBody(100), **environ)

    assert read_body(request, 100) == bytes(100)
    assert request.get_data() == bytes(100)


@pytest.mark.parametrize("environ", [{"CONTENT_LENGTH": str(HUNDRED_MEGABYTES)}, CHUNKED], ids=["length", "chunked"])
def test_a_hundred_megabytes_are_refused_without_being_read(post, environ):
    body = EndlessBody(HUNDRED_MEGABYTES)
    request = post(body, **environ)

    tracemalloc.start()
    with pytest.raises(RequestEntityTooLarge):
        read_body(request, 131072)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert body.taken <= 131073
    assert peak < 2**20


def test_one_byte_too_many_is_refused(post):
    for environ in ({"CONTENT_LENGTH": "101"}, CHUNKED):
        with pytest.raises(RequestEntityTooLarge):
            read_body(post(EndlessBody(101), **environ), 100)


@pytest.mark.parametrize("environ", [{"CONTENT_LENGTH": "80"}, CHUNKED], ids=["length", "chunked"])
def test_a_smaller_limit_of_the_application_holds_too(post, environ):
    post.app.config["MAX_CONTENT_LENGTH"] = 50

    with pytest.raises(RequestEntityTooLarge):
        read_body(post(EndlessBody(80), **environ), 100)


@pytest.mark.parametrize("environ", [{"CONTENT_LENGTH": "100"}, CHUNKED], ids=["length", "chunked"])
def test_the_limit_holds_where_the_application_looked_at_the_stream_before(post, environ):
    fits, long = (post(EndlessBody(size), **environ) for size in (100, HUNDRED_MEGABYTES))
    body = long.stream.raw if hasattr(long.stream, "raw") else long.environ["wsgi.input"]
    assert fits.stream is not None

    assert read_body(fits, 100) == bytes(100)
    with pytest.raises(RequestEntityTooLarge):
        read_body(long, 99)
    assert body.taken <= 100


@pytest.mark.parametrize("environ", [{"CONTENT_LENGTH": "100"}, CHUNKED], ids=["length", "chunked"])
def test_a_body_that_the_application_has_read_before_is_still_there(post, environ):
    request = post(EndlessBody(100), **environ)
    request.get_data()

    assert read_body(request, 100) == bytes(100)
    with pytest.raises(RequestEntityTooLarge):
        read_body(request, 99)


def test_a_body_shorter_than_announced_is_a_bad_request(post):
    with pytest.raises(ClientDisconnected):
        read_body(post(EndlessBody(10), CONTENT_LENGTH="50"), 100)


@pytest.mark.parametrize("length", ["-5", "abc", ""])
def test_a_malformed_length_reads_nothing(post, length):
    body = EndlessBody(50)

    assert read_body(post(body, CONTENT_LENGTH=length), 100) == b""
    assert body.taken == 0


@pytest.mark.parametrize(
    "body", [b"null", b"0", b'"x"', b"[]", b" {} ", b'"\\ud800"', b"-0.0", b"12345678901234567890"]
)
def test_any_json_value_is_read(body):
    parse_json(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"NaN",
        b"-Infinity",
        b"[1,]",
        b"1e999",
        b"1" * 5000,
        b"\xff\xfe",
        b"{'a': 1}",
        b"\xef\xbb\xbf1",
        b"\x00",
    ],
)
def test_what_is_not_json_is_refused(body):
    with pytest.raises(MalformedRequest):
        parse_json(body)


def test_nesting_is_limited():
    assert parse_json(b"[" * DEEPEST_BODY + b"]" * DEEPEST_BODY)
    for levels in (DEEPEST_BODY + 1, 900, 100_000):
        with pytest.raises(MalformedRequest, match="nested deeper"):
            parse_json(b'{"a":[' * levels + b"]}" * levels)
