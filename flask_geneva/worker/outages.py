"""What keeps an RQ worker alive while Redis is away: RQ's own ends at the first command that fails between two jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError, TimeoutError

if TYPE_CHECKING:
    from rq.worker import BaseWorker as _Worker
else:
    _Worker = object

OUTAGES = (ConnectionError, TimeoutError)


class OutlivesOutages(_Worker):
    """Goes on without what Redis was to be told; the loop that waits for jobs is also the one that waits for Redis."""

    # RQ's minute would be added to every absence.
    max_connection_wait_time = 5.0

    @contextmanager
    def outlived(self) -> Iterator[None]:
        """Log an outage instead of ending by it."""
        try:
            yield
        except OUTAGES as error:
            self.log.warning("Worker %s: Redis is away: %s", self.name, error)

    def execute_job(self, job: Any, queue: Any) -> None:
        """Perform a job; the row that it was for is sent again where its job was lost."""
        with self.outlived():
            super().execute_job(job, queue)

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Tell Redis that the worker lives."""
        with self.outlived():
            super().heartbeat(timeout, pipeline)

    def maintain_heartbeats(self, *arguments: Any) -> None:
        """Tell Redis that the worker and its job live."""
        with self.outlived():
            super().maintain_heartbeats(*arguments)

    def set_state(self, state: str, pipeline: Any = None) -> None:
        """Tell Redis what the worker does."""
        with self.outlived():
            super().set_state(state, pipeline)

    def set_shutdown_requested_date(self) -> None:
        """Tell Redis that the worker is to end."""
        with self.outlived():
            super().set_shutdown_requested_date()

    def check_for_suspension(self, burst: bool) -> None:
        """Rest while workers are suspended."""
        with self.outlived():
            super().check_for_suspension(burst)

    def run_maintenance_tasks(self) -> None:
        """Look after registries and the scheduler."""
        with self.outlived():
            super().run_maintenance_tasks()

    def register_death(self) -> None:
        """Tell Redis that the worker has ended."""
        with self.outlived():
            super().register_death()

    def unsubscribe(self) -> None:
        """Listen to no more commands.

        Not by the listener's own ``stop()``, of which RQ makes use: since redis-py 8.2 it waits until the listener has
        looked up, and that is once a minute. Told beforehand, the listener ends with the answer to the unsubscribing.
        """
        if self.pubsub_thread:
            self.pubsub_thread._running.clear()
            with self.outlived():
                self.pubsub.unsubscribe()
            self.pubsub_thread.join(timeout=1)
