"""The queue that the engine talks to, on RQ.

RQ and redis-py take as long to import as the library itself, and many processes of an application never send a job: so
they are imported when the queue is first used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast

from flask_geneva.config import Settings
from flask_geneva.engine.runtime import JobRequest, Liveness

if TYPE_CHECKING:
    from redis import Redis
    from rq import Queue

    _Inquiry = Callable[[Redis, Sequence[str]], Mapping[str, Liveness]]

STEP_FUNCTION = "flask_geneva.worker.jobs.perform_step"


class RQJobQueue:
    """Sends jobs in one pipeline, and knows what became of them. It opens its connection when it is first used."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def redis(self) -> Redis:
        """The connection, made of the URL; RQ needs undecoded answers, so ``decode_responses`` is taken out."""
        connect: Callable[[str], Redis] = resolve_name("flask_geneva.worker.redis_urls:connect")
        return connect(self._settings.redis_url)

    def rq_queue(self, name: str | None = None) -> Queue:
        """Return the queue of that name, or the default one."""
        timeout = self._settings.job_timeout
        default_timeout = -1 if timeout is None else math.ceil(timeout.total_seconds())
        make: type[Queue] = resolve_name("rq:Queue")
        return make(name or self._settings.queue, connection=self.redis, default_timeout=default_timeout)

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
        liveness_of: _Inquiry = resolve_name("flask_geneva.worker.liveness:liveness_of")
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
