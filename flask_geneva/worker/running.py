"""Starts the workers of an application: one in this process, or several below it."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import time
from collections.abc import Sequence
from multiprocessing.context import ForkProcess
from typing import Any

from flask import Flask
from rq.worker_pool import WorkerPool

from flask_geneva.engine.runtime import Runtime
from flask_geneva.worker.connections import forget_connections
from flask_geneva.worker.housekeeper import Housekeeper
from flask_geneva.worker.work_horse import STOP_SIGNALS
from flask_geneva.worker.worker import GenevaSimpleWorker, GenevaWorker

logger = logging.getLogger(__name__)

# How often, in seconds, a worker looks whether its queues need a scheduler.
MAINTENANCE_INTERVAL = 60
# How long, in seconds, a pool that is to stop waits for its workers before it says that it does so.
PATIENCE = 10.0


def run_worker(
    app: Flask, queues: Sequence[str], *, processes: int = 1, burst: bool = False, fork: bool = True
) -> None:
    """Work on the queues until stopped, or in a burst until they are empty.

    Without names: on ``GENEVA_QUEUE`` and every queue that the loaded workflow classes name. SIGTERM and SIGINT let
    the step in hand end, a resumable one at its next checkpoint; a second one after more than a second ends it cold.
    """
    runtime = app.extensions["geneva"].runtime
    if not runtime.declared_classes():
        logger.warning(
            "The application '%s' has no workflow class loaded, so every workflow that this worker meets will be "
            "paused. Import the modules that declare them in the application factory.",
            app.name,
        )
    names = list(queues) or queues_of(runtime)
    if processes > 1:
        _Pool(app, names, processes).start(burst=burst)
        return
    make_worker(app, names, fork=fork).work(burst=burst)


def queues_of(runtime: Runtime) -> list[str]:
    """Name every queue that the application's steps are sent to, the default one first."""
    named = {
        options.get("queue")
        for workflow_class in runtime.declared_classes().values()
        for options in (
            workflow_class.definition.job_options,
            *(step.job_options for step in workflow_class.definition.steps.values()),
        )
    }
    default = runtime.settings.queue
    return [default, *sorted(name for name in named if name is not None and name != default)]


def make_worker(app: Flask, queues: Sequence[str], *, fork: bool, **options: Any) -> GenevaWorker | GenevaSimpleWorker:
    """Make a worker that is yet to begin."""
    queue = app.extensions["geneva"].queue
    # RQ waits longer for an answer than a web process should; a connection that is open keeps its own patience.
    queue.redis.connection_pool.disconnect()
    queue.redis.connection_pool.reset()
    kind = GenevaWorker if fork else GenevaSimpleWorker
    worker = kind(
        [queue.rq_queue(name) for name in queues],
        connection=queue.redis,
        maintenance_interval=MAINTENANCE_INTERVAL,
        **options,
    )
    worker.application = app
    return worker


class _Pool(WorkerPool):
    """Keeps so many workers running, with one housekeeper for all."""

    def __init__(self, app: Flask, queues: Sequence[str], processes: int) -> None:
        self._app = app
        self._housekeeper = Housekeeper(app)
        super().__init__(queues, connection=app.extensions["geneva"].queue.redis, num_workers=processes)

    def start(self, burst: bool = False, logging_level: str = "INFO") -> None:
        """Work until stopped, or in a burst until the queues are empty."""
        try:
            super().start(burst=burst, logging_level=logging_level)
        finally:
            self._housekeeper.stop()

    def check_workers(self, respawn: bool = True) -> None:
        """Replace workers that have died, and the housekeeper; in a burst nothing is replaced."""
        if respawn:
            self._housekeeper.start()
        super().check_workers(respawn)

    def all_workers_have_stopped(self) -> bool:
        """Wait for them as well, so that the pool ends with the last one and not when it looks again."""
        give_up = time.monotonic() + PATIENCE
        for worker in list(self.worker_dict.values()):
            worker.process.join(max(0.0, give_up - time.monotonic()))
        return bool(super().all_workers_have_stopped())

    def get_worker_process(self, name: str, burst: bool, *options: Any, **more: Any) -> ForkProcess:
        """Return the process of one worker."""
        return multiprocessing.get_context("fork").Process(
            target=_work, args=(self._app, self._queue_names, name, burst), name=f"geneva worker {name}"
        )


def _work(app: Flask, queues: Sequence[str], name: str, burst: bool) -> None:
    for number in STOP_SIGNALS:
        # Those of the pool would stop the other workers.
        signal.signal(number, signal.SIG_DFL)
    forget_connections(app)
    worker = make_worker(app, queues, fork=True, name=name)
    worker.keeps_house = False
    worker.work(burst=burst)
