"""Connections to Redis, made of the URL in the configuration."""

from __future__ import annotations

from urllib.parse import SplitResult, unquote, urlsplit

from redis import ConnectionPool, Redis
from redis.sentinel import Sentinel


def connect(url: str) -> Redis:
    """Make a connection of a ``redis://``, ``rediss://``, ``unix://`` or
    ``sentinel://[password@]host:port,host:port/service[/db]`` URL; it is opened when it is used.
    """
    parts = urlsplit(url)
    if parts.scheme == "sentinel":
        return _connect_by_sentinel(parts)
    pool = ConnectionPool.from_url(url)
    pool.connection_kwargs.pop("decode_responses", None)
    return Redis(connection_pool=pool)


def _connect_by_sentinel(parts: SplitResult) -> Redis:
    credentials, _, hosts = parts.netloc.rpartition("@")
    password = unquote(credentials.rpartition(":")[2]) or None
    addresses = [
        (host or "localhost", int(port or 26379)) for host, _, port in (h.partition(":") for h in hosts.split(","))
    ]
    service, _, database = parts.path.strip("/").partition("/")
    sentinel = Sentinel(addresses)
    master: Redis = sentinel.master_for(service or "mymaster", db=int(database or 0), password=password)
    return master
