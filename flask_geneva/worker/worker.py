"""RQ workers that run steps inside their Flask application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flask import Flask
from rq import Queue, SimpleWorker, Worker

from flask_geneva.worker.jobs import load_application
from flask_geneva.worker.timeout import StepDeathPenalty

if TYPE_CHECKING:
    from rq.executions import Execution
    from rq.job import Job


class _InApplication:
    """Gives each job a fresh context of one application, which is loaded once a process."""

    death_penalty_class = StepDeathPenalty
    application: Flask | None = None

    def bootstrap(self, *arguments: Any, **options: Any) -> None:
        """Load the application before the first job, and before any fork."""
        if self.application is None:
            self.application = load_application()
        super().bootstrap(*arguments, **options)  # type: ignore[misc]

    def perform_job(self, job: Job, queue: Queue, execution: Execution) -> bool:
        """Perform the job inside the application; leaving the context removes the scoped session."""
        assert self.application is not None
        with self.application.app_context():
            done: bool = super().perform_job(job, queue, execution)  # type: ignore[misc]
            return done


class GenevaWorker(_InApplication, Worker):
    """A worker that forks for each job."""

    def main_work_horse(self, job: Job, queue: Queue) -> None:
        """Leave the parent's database sockets alone: a pooled one that two processes speak on is ruined for both."""
        assert self.application is not None
        _forget_connections(self.application)
        super().main_work_horse(job, queue)


class GenevaSimpleWorker(_InApplication, SimpleWorker):
    """A worker that runs its jobs in its own process: the fastest, and without a parent that sees it die."""


def run_worker(app: Flask, queues: Sequence[str], *, burst: bool = False, fork: bool = True) -> None:
    """Work on the queues (``GENEVA_QUEUE`` where none is named) until stopped, or in a burst until they are empty."""
    state = app.extensions["geneva"]
    kind = GenevaWorker if fork else GenevaSimpleWorker
    names = list(queues) or [state.runtime.settings.queue]
    worker = kind([state.queue.rq_queue(name) for name in names], connection=state.queue.redis)
    worker.application = app
    worker.work(burst=burst, with_scheduler=True)


def _forget_connections(app: Flask) -> None:
    with app.app_context():
        for engine in app.extensions["geneva"].db.engines.values():
            engine.dispose(close=False)
