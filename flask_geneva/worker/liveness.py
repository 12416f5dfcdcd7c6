"""What became of a job, asked of Redis in two or three pipelines without fetching a job.

A heartbeat decides before the status does: RQ keeps one for the process that runs a job, and our workers another that
survives a Redis which lost its memory meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redis import Redis
from rq import Queue
from rq.executions import ExecutionRegistry
from rq.job import Job, JobStatus
from rq.registry import ScheduledJobRegistry

from flask_geneva.engine.runtime import Liveness

# A longer queue is not searched for jobs that were taken out of it and lost; its jobs' status is believed.
LONGEST_SEARCHED_QUEUE = 10_000
CHUNK = 1000

# RQ lets the registry of a job's executions outlive the heartbeat that it was written with by this much.
_AFTER_THE_HEARTBEAT = 60_000


def running_key(job_id: str) -> str:
    """Return the key that a worker of ours keeps alive while it runs the job."""
    return f"geneva:running:{job_id}"


def liveness_of(redis: Redis, job_ids: Sequence[str]) -> dict[str, Liveness]:
    """Say of each job what became of it."""
    found: dict[str, Liveness] = {}
    for start in range(0, len(job_ids), CHUNK):
        found.update(_liveness_of(redis, job_ids[start : start + CHUNK]))
    return found


@dataclass(frozen=True, kw_only=True)
class _Glance:
    """What Redis says of a job at first."""

    job_id: str
    status: str | None
    queue: str
    beats: bool


def _liveness_of(redis: Redis, job_ids: Sequence[str]) -> dict[str, Liveness]:
    glances = _glances(redis, job_ids)
    still = [glance for glance in glances if not glance.beats]
    delayed = _delayed(redis, [glance for glance in still if glance.status == JobStatus.SCHEDULED])
    queued = _queued(redis, [glance for glance in still if glance.status == JobStatus.QUEUED])
    return {glance.job_id: _judge(glance, delayed, queued) for glance in glances}


def _judge(glance: _Glance, delayed: set[str], queued: set[str]) -> Liveness:
    if glance.beats:
        return Liveness.RUNNING
    if glance.status == JobStatus.SCHEDULED:
        return Liveness.DELAYED if glance.job_id in delayed else Liveness.UNKNOWN
    if glance.status == JobStatus.QUEUED:
        # Not in its queue: a worker took it out and died before it said so.
        return Liveness.QUEUED if glance.job_id in queued else Liveness.UNKNOWN
    return Liveness.UNKNOWN if glance.status is None else Liveness.DEAD


def _glances(redis: Redis, job_ids: Sequence[str]) -> list[_Glance]:
    with redis.pipeline(transaction=False) as pipeline:
        for job_id in job_ids:
            pipeline.hmget(Job.key_for(job_id), ["status", "origin"])
            pipeline.pttl(ExecutionRegistry(job_id, pipeline).key)
            pipeline.exists(running_key(job_id))
        answers = pipeline.execute()
    return [_glance(job_id, *answers[3 * place : 3 * place + 3]) for place, job_id in enumerate(job_ids)]


def _glance(job_id: str, fields: list[bytes | None], lifetime: int, is_kept_alive: int) -> _Glance:
    status, origin = (None if field is None else field.decode() for field in fields)
    beats = bool(is_kept_alive) or (status is not None and lifetime > _AFTER_THE_HEARTBEAT)
    return _Glance(job_id=job_id, status=status, queue=origin or "", beats=beats)


def _delayed(redis: Redis, glances: Sequence[_Glance]) -> set[str]:
    """Those that a scheduler will find."""
    with redis.pipeline(transaction=False) as pipeline:
        for glance in glances:
            pipeline.zscore(ScheduledJobRegistry(glance.queue, connection=redis).key, glance.job_id)
        scores = pipeline.execute()
    return {glance.job_id for glance, score in zip(glances, scores, strict=True) if score is not None}


def _queued(redis: Redis, glances: Sequence[_Glance]) -> set[str]:
    """Those that are in their queue, or in one that is too long to be searched."""
    found: set[str] = set()
    for name in {glance.queue for glance in glances}:
        of_queue = {glance.job_id for glance in glances if glance.queue == name}
        found |= of_queue if _is_long(redis, name) else of_queue.intersection(_waiting_in(redis, name))
    return found


def _is_long(redis: Redis, name: str) -> bool:
    length: Any = redis.llen(Queue(name, connection=redis).key)
    return bool(length > LONGEST_SEARCHED_QUEUE)


def _waiting_in(redis: Redis, name: str) -> Iterable[str]:
    entries: Any = redis.lrange(Queue(name, connection=redis).key, 0, -1)
    return (entry.decode() for entry in entries)
