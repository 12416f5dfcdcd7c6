"""The Redis that the suite runs on: a database number of the machine's own, or an embedded server.

A number is taken only when its database is empty, and is marked as ours as long as we hold it, so that nobody's
keys are flushed and two runs at once do not meet.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import redis

from sample_app.embedded_redis import embedded_redis
from tests.harness.absence import ServerAbsent

VARIABLE = "GENEVA_TEST_REDIS_URL"
OWNER_KEY = "geneva-tests-owner"

# Atomic: between the look and the mark, another run must not take the same number.
_CLAIM = f"""
if redis.call('DBSIZE') > 0 then return 0 end
redis.call('SET', '{OWNER_KEY}', ARGV[1])
return 1
"""


@dataclass(frozen=True, kw_only=True)
class TestRedis:
    """One Redis database for this run."""

    __test__ = False

    url: str
    owner: str
    described: str
    embedded: bool

    def flush(self) -> None:
        """Empty the database and keep it marked as ours."""
        with contextlib.closing(redis.Redis.from_url(self.url)) as client, client.pipeline() as pipeline:
            pipeline.flushdb()
            pipeline.set(OWNER_KEY, self.owner)
            pipeline.execute()

    def release(self) -> None:
        """Leave the database empty for whoever comes next."""
        with contextlib.closing(redis.Redis.from_url(self.url)) as client:
            client.flushdb()


@contextlib.contextmanager
def machine_redis() -> Iterator[TestRedis]:
    """A database number on the Redis that is named, or that answers at the usual address.

    :raises ServerAbsent: none answers, or all its databases are in use.
    """
    claimed = _claim(os.environ.get(VARIABLE) or "redis://127.0.0.1:6379")
    try:
        yield claimed
    finally:
        claimed.release()


@contextlib.contextmanager
def own_redis() -> Iterator[TestRedis]:
    """An embedded server."""
    with embedded_redis() as server:
        yield TestRedis(url=server.url, owner=_owner(), described=server.kind, embedded=True)


def _claim(server: str) -> TestRedis:
    parts = urlsplit(server)
    url = parts._replace(path="").geturl()
    owner = _owner()
    for number in range(15, 0, -1):
        with contextlib.closing(redis.Redis.from_url(f"{url}/{number}", socket_connect_timeout=5)) as client:
            if _take(client, owner, f"{parts.hostname}:{parts.port or 6379}"):
                return TestRedis(
                    url=f"{url}/{number}",
                    owner=owner,
                    described=f"the Redis at {parts.hostname}, number {number}",
                    embedded=False,
                )
    raise ServerAbsent(
        f"redis: no empty database from 1 to 15 at {parts.hostname}; flush one, or name a server in {VARIABLE}"
    )


def _take(client: redis.Redis, owner: str, address: str) -> bool:
    try:
        if _left_by_a_dead_run(client):
            client.flushdb()
        return bool(client.eval(_CLAIM, 0, owner))
    except redis.ConnectionError as error:
        raise ServerAbsent(f"redis: {address} ({error}); {VARIABLE} names another") from error


def _left_by_a_dead_run(client: redis.Redis) -> bool:
    """Whether the mark is of a process on this machine that is gone: a run that was killed before it could tidy."""
    mark = cast(bytes | None, client.get(OWNER_KEY))
    if mark is None:
        return False
    host, _, process_id = mark.decode().rpartition(":")
    return host == socket.gethostname() and not _runs(int(process_id))


def _runs(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
