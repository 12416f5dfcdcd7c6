"""RQ workers that run steps inside their Flask application."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import socket
from types import FrameType
from typing import TYPE_CHECKING, Any

from flask import Flask
from rq import Queue, SimpleWorker, Worker
from rq.exceptions import NoSuchJobError
from rq.executions import Execution
from rq.job import Job, JobStatus

from flask_geneva.engine.runtime import Runtime
from flask_geneva.housekeeping.dead_executions import Death
from flask_geneva.housekeeping.run import recover_job
from flask_geneva.worker.connections import close_connections, forget_connections
from flask_geneva.worker.heart import Heart
from flask_geneva.worker.housekeeper import Housekeeper
from flask_geneva.worker.job_queue import STEP_FUNCTION
from flask_geneva.worker.jobs import let_steps_ask, load_application
from flask_geneva.worker.liveness import running_key
from flask_geneva.worker.outages import OutlivesOutages
from flask_geneva.worker.scheduler import GenevaScheduler
from flask_geneva.worker.signs_of_life import GivesSignsOfLife
from flask_geneva.worker.success import ForgetsSuccesses
from flask_geneva.worker.warming import warm_up
from flask_geneva.worker.work_horse import (
    DONE,
    DONE_AND_LEAVING,
    STOP_SIGNALS,
    Errand,
    WorkHorse,
    errands,
    fork_work_horse,
)

if TYPE_CHECKING:
    from rq.worker import BaseWorker as _Worker
else:
    _Worker = object


class _InApplication(OutlivesOutages, GivesSignsOfLife, ForgetsSuccesses, _Worker):
    """Loads one application a process, gives each job a fresh context of it, and brings scheduler and housekeeping."""

    application: Flask | None = None
    keeps_house = True
    _housekeeper: Housekeeper | None = None
    _job_in_hand: Job | None = None
    _beating: Heart | None = None

    @property
    def app(self) -> Flask:
        """The application, which is loaded when the worker begins to work."""
        assert self.application is not None
        return self.application

    @property
    def dequeue_timeout(self) -> int:
        """Come back from waiting often enough to look after the scheduler."""
        return max(1, min(super().dequeue_timeout, int(self.maintenance_interval)))

    def work(self, burst: bool = False, *arguments: Any, **options: Any) -> bool:
        """Work until stopped, delayed jobs included; a burst ends with the queues, and does not keep house."""
        self.application = self.application or load_application()
        if self.keeps_house and not burst:
            self._housekeeper = Housekeeper(self.app)
            self._housekeeper.start()
        options["with_scheduler"] = True
        try:
            return super().work(burst, *arguments, **options)
        finally:
            self._end_housekeeper()
            self._end_heart()

    def run_maintenance_tasks(self) -> None:
        """Also start housekeeping again where its process has died."""
        if self._housekeeper is not None:
            self._housekeeper.start()
        super().run_maintenance_tasks()

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Remember which job is in hand."""
        self._job_in_hand = job
        try:
            super().execute_job(job, queue)
        finally:
            self._job_in_hand = None

    def perform_job(self, job: Job, queue: Queue, execution: Execution) -> bool:
        """Perform the job inside the application; leaving the context removes the scoped session."""
        with self._heart().beating_for(job, execution), self.app.app_context():
            let_steps_ask(lambda: self._stop_requested)
            return super().perform_job(job, queue, execution)

    def maintain_heartbeats(self, job: Job, execution: Execution) -> None:
        """Also keep a sign of life that does not depend on what Redis knew before."""
        with self.outlived():
            self.connection.set(running_key(job.id), self.name, ex=self.job_monitoring_interval + 60)
        super().maintain_heartbeats(job, execution)

    def _heart(self) -> Heart:
        """The heart of this process: it may outlive the worker that forked it, or have none above it."""
        if self._beating is None:
            self._beating = Heart(self.maintain_heartbeats, self.job_monitoring_interval)
        return self._beating

    def _start_scheduler(self, burst: bool = False, *options: Any, **more: Any) -> None:
        """Start ours in the place of RQ's."""
        scheduler = GenevaScheduler(self.queues, connection=self.connection, serializer=self.serializer)
        self.scheduler = scheduler
        with self.outlived():
            if not scheduler.acquire_locks():
                return
            if not burst:
                scheduler.start()
                return
            try:
                scheduler.enqueue_scheduled_jobs()
            finally:
                scheduler.release_locks()

    def _end_heart(self) -> None:
        if self._beating is not None:
            self._beating.stop()
            self._beating = None

    def _end_housekeeper(self) -> None:
        if self._housekeeper is not None:
            self._housekeeper.stop()
            self._housekeeper = None


class GenevaWorker(_InApplication, Worker):
    """A worker that runs jobs in a child, sees a child that dies, and has its step run again at once.

    The child stays for the next job, on connections of its own, until it has done many, one of them has failed, or
    there is nothing to do. A subclass that wants a new one for each job sets ``jobs_of_a_child`` to 1.
    """

    jobs_of_a_child = 1000
    _horse: WorkHorse | None = None

    def bootstrap(self, *arguments: Any, **options: Any) -> None:
        """Do once what each child would have to do, before the first fork."""
        warm_up(self.app)
        close_connections(self.app)
        super().bootstrap(*arguments, **options)

    def run_maintenance_tasks(self) -> None:
        """Also let a child go that has nothing to do."""
        if self._horse is not None and self._horse.idle_seconds > self.maintenance_interval / 2:
            self._dismiss_horse()
        super().run_maintenance_tasks()

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        """Give the job to the child, or to a new one."""
        execution = self.execution
        assert execution is not None
        errand = Errand(job_id=job.id, queue=queue.name, execution_id=execution.id)
        if self._horse is None or self._horse.has_left or not self._horse.takes(errand):
            self._dismiss_horse()
            self._horse = fork_work_horse(self._serve)
            self._horse.takes(errand)
        self._horse_pid = self._horse.process_id
        if self._stop_requested:
            self._tell_horse()

    def setup_work_horse_signals(self) -> None:
        """Let a child that is told to end finish its step, or stop at its next checkpoint."""
        super().setup_work_horse_signals()
        signal.signal(signal.SIGTERM, self._stop_softly)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def handle_warm_shutdown_request(self) -> None:
        """Tell the child."""
        super().handle_warm_shutdown_request()
        self._tell_horse()

    def wait_for_horse(self) -> tuple[Any, Any, Any]:
        """Wait until the child has done its job, or has died."""
        return (None, None, None) if self._horse is None else self._horse.wait()

    def monitor_work_horse(self, job: Job, queue: Queue, execution: Execution) -> None:
        """Watch the child, and recover its step when it dies."""
        if job.timeout and job.timeout > 0:
            # The limit is that of a step, and a job may go straight on with several; a child that hangs is killed.
            job.timeout += math.ceil(self._runtime.settings.run_ahead.total_seconds())
        with self.outlived():
            super().monitor_work_horse(job, queue, execution)
        if self._horse is not None and self._horse.cause_of_death is not None:
            self._recover(job, self._death_of(job, self._horse.cause_of_death))
            self._horse = None

    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:
        """End cold, and have the step in hand run again by another worker."""
        try:
            super().request_force_stop(signum, frame)
        except SystemExit:
            if self._job_in_hand is not None and self._horse is not None and self._horse.cause_of_death is not None:
                self._recover(self._job_in_hand, Death(cause="stopped cold", is_counted=False))
            raise

    def teardown(self) -> None:
        """Let the child go."""
        self._dismiss_horse()
        super().teardown()

    @property
    def _runtime(self) -> Runtime:
        runtime: Runtime = self.app.extensions["geneva"].runtime
        return runtime

    def _serve(self, line: socket.socket) -> None:
        """What a child does: jobs, one after another."""
        random.seed()
        self.setup_work_horse_signals()
        self._is_horse = True
        forget_connections(self.app)
        for number, errand in enumerate(errands(line), start=1):
            has_worked = self._run(errand)
            # After a failure nobody knows what is left half done in the process.
            stays = has_worked and number < self.jobs_of_a_child and not self._stop_requested
            if not stays:
                close_connections(self.app)
            line.sendall(DONE if stays else DONE_AND_LEAVING)
            if not stays:
                return
        close_connections(self.app)

    def _run(self, errand: Errand) -> bool:
        os.environ["RQ_WORKER_ID"], os.environ["RQ_JOB_ID"] = self.name, errand.job_id
        queue = self.queue_class(
            errand.queue, connection=self.connection, job_class=self.job_class, serializer=self.serializer
        )
        try:
            job = self.job_class.fetch(errand.job_id, connection=self.connection, serializer=self.serializer)
        except NoSuchJobError:
            # Redis has lost it between two commands; its row is sent again.
            return True
        execution = Execution(errand.execution_id, job.id, self.connection, self.name)
        self.executions = {execution.id: execution}
        return self.perform_job(job, queue, execution)

    def _stop_softly(self, signum: int, frame: FrameType | None) -> None:
        self._stop_requested = True

    def _tell_horse(self) -> None:
        if self.horse_pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.horse_pid, signal.SIGTERM)

    def _dismiss_horse(self) -> None:
        if self._horse is not None and not self._horse.has_left:
            self._horse.dismiss()
        self._horse = None

    def _death_of(self, job: Job, cause: str) -> Death:
        if self._was_stopped(job):
            return Death(cause="as its job was stopped through RQ", is_counted=False, stops=True)
        return Death(cause=cause)

    def _was_stopped(self, job: Job) -> bool:
        with self.outlived(), contextlib.suppress(Exception):
            return bool(job.get_status() == JobStatus.STOPPED)
        return False

    def _recover(self, job: Job, death: Death) -> None:
        """Have the step run again; a child that was killed before it began its step counts as well."""
        try:
            if job.func_name != STEP_FUNCTION:
                return
            with self.app.app_context():
                by_signal = death.cause.startswith("signal")
                recover_job(self._runtime, job.id, job.args[0], death, also_scheduled=by_signal)
        except Exception:
            self.log.exception("Worker %s: the step of job %s is left to housekeeping", self.name, job.id)
        finally:
            close_connections(self.app)


class GenevaSimpleWorker(_InApplication, SimpleWorker):
    """A worker that runs its jobs in its own process: the fastest, and without a parent that sees it die."""

    def get_heartbeat_ttl(self, *job: Any, **options: Any) -> int:
        """As short as that of a worker that forks, since the heart beats beside the job."""
        return int(self.job_monitoring_interval) + 60
