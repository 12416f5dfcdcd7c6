"""Who is at work: the workers and schedulers that RQ knows of, and the queues that nobody looks at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from redis import Redis
from rq import Worker
from rq.scheduler import RQScheduler


@dataclass(frozen=True, kw_only=True)
class PresentWorker:
    """A worker that RQ has heard of within its heartbeat's expiry."""

    name: str
    queues: tuple[str, ...]
    state: str
    last_heartbeat: datetime | None


@dataclass(frozen=True, kw_only=True)
class Presence:
    """Who looks after some queues."""

    workers: Sequence[PresentWorker]
    unserved: tuple[str, ...]
    unscheduled: tuple[str, ...]


def presence_on(connection: Redis, queues: Iterable[str]) -> Presence:
    """Ask Redis which workers there are, and which of the queues have no worker, or nobody who sends delayed jobs."""
    names = sorted(set(queues))
    workers = [
        PresentWorker(
            name=worker.name,
            queues=tuple(worker.queue_names()),
            state=str(worker.get_state()),
            last_heartbeat=worker.last_heartbeat,
        )
        for worker in Worker.all(connection=connection)
    ]
    served = {queue for worker in workers for queue in worker.queues}
    return Presence(
        workers=[worker for worker in workers if served.intersection(names).intersection(worker.queues)],
        unserved=tuple(name for name in names if name not in served),
        unscheduled=tuple(name for name in names if not connection.exists(RQScheduler.get_locking_key(name))),
    )
