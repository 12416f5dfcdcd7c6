"""The queue that the engine talks to, on RQ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit

from redis import ConnectionPool, Redis
from redis.sentinel import Sentinel
from rq import Queue

from flask_geneva.config import Settings
from flask_geneva.engine.runtime import JobRequest, Liveness
from flask_geneva.worker.liveness import liveness_of

STEP_FUNCTION = "flask_geneva.worker.jobs.perform_step"


class RQJobQueue:
    """Sends jobs in one pipeline, and knows what became of them. It opens its connection when it is first used."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def redis(self) -> Redis:
        """The connection, made of the URL; RQ needs undecoded answers, so ``decode_responses`` is taken out."""
        return connect(self._settings.redis_url)

    def rq_queue(self, name: str | None = None) -> Queue:
        """Return the queue of that name, or the default one."""
        timeout = self._settings.job_timeout
        default_timeout = -1 if timeout is None else math.ceil(timeout.total_seconds())
        return Queue(name or self._settings.queue, connection=self.redis, default_timeout=default_timeout)

    def enqueue(self, requests: Sequence[JobRequest]) -> None:
        """Send all jobs in one round trip."""
        queues: dict[str | None, Queue] = {}
        with self.redis.pipeline() as pipeline:
            # RQ would do it at the first job without a delay, and redis-py refuses that behind one with a delay.
            pipeline.multi()
            for request in requests:
                name = request.options.get("queue")
                if name not in queues:
                    queues[name] = self.rq_queue(name)
                self._add(queues[name], request, pipeline)
            pipeline.execute()

    def liveness(self, job_ids: Sequence[str]) -> Mapping[str, Liveness]:
        """Say of each job what became of it."""
        return liveness_of(self.redis, job_ids)

    def bookmark(self, name: str) -> int:
        """Return where a walk through many rows stopped; 0 for one that is to begin."""
        return int(cast("bytes | None", self.redis.get(self._bookmark_key(name))) or 0)

    def set_bookmark(self, name: str, position: int) -> None:
        """Keep where a walk through many rows stopped."""
        self.redis.set(self._bookmark_key(name), position)

    def _bookmark_key(self, name: str) -> str:
        return f"geneva:bookmark:{self._settings.queue}:{name}"

    def _add(self, queue: Queue, request: JobRequest, pipeline: Any) -> None:
        options = dict(request.options)
        at_front = bool(options.pop("at_front", False))
        options.pop("queue", None)
        options.setdefault("description", f"geneva step execution {request.execution_id}")
        # The row tells the story; a finished job has nothing to add to it.
        options.setdefault("result_ttl", 0)
        job = queue.create_job(STEP_FUNCTION, args=(request.execution_id,), job_id=request.job_id, **options)
        if request.due is None:
            queue.enqueue_job(job, pipeline=pipeline, at_front=at_front)
            return
        job.enqueue_at_front = at_front
        queue.schedule_job(job, request.due, pipeline=pipeline)
        # RQ rounds down to a whole second, and would start the job early. Its scheduler looks at whole seconds, and
        # starts this one late, ours at the moment itself.
        pipeline.zadd(queue.scheduled_job_registry.key, {job.id: request.due.timestamp()})


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
