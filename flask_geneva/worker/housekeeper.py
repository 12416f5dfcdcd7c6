"""The process beside a worker that does housekeeping every now and then, while no other worker's does.

It is a process and not a thread, since a worker forks: a thread could hold a lock of the database driver at that
moment, and no child would ever get it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from datetime import timedelta
from multiprocessing.context import ForkProcess
from types import FrameType

from flask import Flask
from redis import Redis
from redis.exceptions import RedisError

from flask_geneva.engine.runtime import Runtime
from flask_geneva.housekeeping.run import run_housekeeping
from flask_geneva.worker.connections import close_connections, forget_connections

logger = logging.getLogger(__name__)

LONGEST_TICK = 1.0
NAP = 0.1
# After a loss a row this long overdue is not one whose job is just being sent; so all that were lost are waited for.
OVERDUE_AFTER_A_LOSS = timedelta(seconds=2)
PATIENCE_AFTER_A_LOSS = 2.5


class Lease:
    """The right to do housekeeping for one interval, which one worker at a time has."""

    def __init__(self, redis: Redis, queue: str, interval: timedelta) -> None:
        self._redis = redis
        self._key = f"geneva:housekeeping:{queue}"
        self._memory_key = f"geneva:memory:{queue}"
        self._loss_key = f"geneva:loss:{queue}"
        self._milliseconds = max(1, int(interval.total_seconds() * 1000))

    def take(self) -> tuple[bool, bool]:
        """Return whether the lease is ours from this moment on, and whether Redis has forgotten what it knew."""
        with self._redis.pipeline() as pipeline:
            pipeline.set(self._key, os.getpid(), nx=True, px=self._milliseconds)
            pipeline.exists(self._memory_key)
            pipeline.set(self._memory_key, 1)
            is_ours, remembers, _ = pipeline.execute()
        return bool(is_ours), not remembers

    def take_after_a_loss(self) -> bool:
        """Return whether it is ours to look at once for what Redis has lost."""
        return bool(self._redis.set(self._loss_key, os.getpid(), nx=True, ex=10))

    def extend(self) -> None:
        """Keep the lease for another interval, as a run takes longer than one."""
        self._redis.pexpire(self._key, self._milliseconds)


class Housekeeper:
    """Starts the process, and ends it; the process ends by itself when its worker is gone."""

    def __init__(self, app: Flask) -> None:
        self._app = app
        self._process: ForkProcess | None = None

    def start(self) -> None:
        """Start the process where it does not run; an application without an interval has none."""
        if self._process is not None and self._process.is_alive():
            return
        if _runtime_of(self._app).settings.housekeeping_interval is None:
            return
        worker = os.getpid()
        # A daemon: a parent that ends by an error must not wait for a child that waits for the parent's end.
        self._process = multiprocessing.get_context("fork").Process(
            target=_Rounds(self._app, worker).go, name="geneva housekeeping", daemon=True
        )
        self._process.start()

    def stop(self, within: float = 10.0) -> None:
        """Let it finish the row in hand."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.join(within)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process = None


class _Ended(Exception):
    """A run is broken off between two rows."""


class _Rounds:
    """What the process does."""

    def __init__(self, app: Flask, worker: int) -> None:
        settings = _runtime_of(app).settings
        assert settings.housekeeping_interval is not None
        self._app = app
        self._worker = worker
        self._is_stopping = False
        self._interval = settings.housekeeping_interval
        self._lease = Lease(app.extensions["geneva"].queue.redis, settings.queue, self._interval)
        self._extended = 0.0
        self._was_away = False
        self._is_first = True

    def go(self) -> None:
        """Look whether it is time for a run, until the worker ends."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        forget_connections(self._app)
        tick = min(LONGEST_TICK, self._interval.total_seconds())
        while not self._must_end():
            try:
                self._look()
            except RedisError as error:
                if not self._was_away:
                    logger.warning("Housekeeping waits for Redis: %s", error)
                self._was_away = True
            except _Ended:
                return
            except Exception:
                logger.exception("Housekeeping failed, and will be tried again")
            self._nap(tick)

    def _look(self) -> None:
        is_ours, has_forgotten = self._lease.take()
        is_loss = has_forgotten or self._was_away
        was_watching = not self._is_first
        self._was_away = self._is_first = False
        if is_loss and self._lease.take_after_a_loss():
            if was_watching:
                self._nap(PATIENCE_AFTER_A_LOSS)
            self._keep_house(OVERDUE_AFTER_A_LOSS)
        elif is_ours:
            self._keep_house()

    def _keep_house(self, overdue_after: timedelta | None = None) -> None:
        self._extended = time.monotonic()
        with self._app.app_context():
            try:
                summary = run_housekeeping(_runtime_of(self._app), self._on_progress, overdue_after=overdue_after)
            finally:
                close_connections(self._app)
        done = {name: number for name, number in summary.as_dict().items() if number}
        if done:
            logger.info("Housekeeping: %s", ", ".join(f"{number} {name}" for name, number in done.items()))

    def _on_progress(self, section: str, done: int) -> None:
        if self._must_end():
            raise _Ended
        if time.monotonic() - self._extended > self._interval.total_seconds() / 3:
            self._lease.extend()
            self._extended = time.monotonic()

    def _must_end(self) -> bool:
        return self._is_stopping or os.getppid() != self._worker

    def _nap(self, seconds: float) -> None:
        """Sleep in short pieces: a sleep is gone on with after a signal."""
        until = time.monotonic() + seconds
        while not self._must_end() and time.monotonic() < until:
            time.sleep(min(NAP, seconds))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True


def _runtime_of(app: Flask) -> Runtime:
    runtime: Runtime = app.extensions["geneva"].runtime
    return runtime
