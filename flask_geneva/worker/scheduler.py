"""The process that sends delayed jobs when they are due: RQ's own, looked after a little better."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterable
from multiprocessing.process import BaseProcess
from typing import Any, cast

from redis.exceptions import RedisError
from rq.registry import ScheduledJobRegistry
from rq.scheduler import RQScheduler, run


class _ExactRegistry(ScheduledJobRegistry):
    """Lets jobs go at their very moment; RQ's goes by whole seconds."""

    def get_jobs_to_schedule(self, timestamp: float | None = None, chunk_size: int = 1000) -> list[str]:
        """Return jobs that are due by now, whatever whole second the caller has in mind."""
        due: list[str] = super().get_jobs_to_schedule(cast("int", time.time()), chunk_size)
        return due


class GenevaScheduler(RQScheduler):
    """Looks several times a second, outlives an absence of Redis, and ends when its worker is gone."""

    look_every = 0.2
    beat_every = 1.0

    def start(self) -> BaseProcess:
        """Start the process, as a daemon: a worker that ends by an error must not wait for what waits for its end."""
        self._status = self.Status.STARTED
        # A connection is not shared with a child.
        self._connection = None
        context = multiprocessing.get_context("fork")
        process = context.Process(target=run, args=(self,), name="Scheduler", daemon=True)
        self._process: Any = process
        process.start()
        return process

    def prepare_registries(self, queue_names: Iterable[str] | None = None) -> None:
        """Look at the registries of the queues whose locks are held."""
        self._scheduled_job_registries = [
            _ExactRegistry(name, connection=self.connection, serializer=self.serializer)
            for name in queue_names or self._acquired_locks
        ]

    def work(self) -> None:
        """Send what is due until asked to stop; give up the locks at the end."""
        self._install_signal_handlers()
        worker = os.getppid()
        last_beat = 0.0
        with contextlib.suppress(RedisError):
            self.register_birth()
        while not self._stop_requested and os.getppid() == worker:
            began = time.monotonic()
            try:
                if began - last_beat >= self.beat_every:
                    self._beat()
                    last_beat = began
                self.enqueue_scheduled_jobs()
            except RedisError as error:
                self.log.warning("The scheduler waits for Redis: %s", error)
                time.sleep(self.beat_every)
            time.sleep(max(0.0, self.look_every - (time.monotonic() - began)))
        with contextlib.suppress(RedisError):
            self.stop()

    def _beat(self) -> None:
        if self.should_reacquire_locks:
            self.acquire_locks()
        self.heartbeat()
