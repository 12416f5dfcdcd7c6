"""The end of a job that went well and leaves nothing in Redis, as a step's does: its row tells the story."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import WatchError
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.registry import CanceledJobRegistry
from rq.results import Result
from rq.utils import now

if TYPE_CHECKING:
    from rq.worker import BaseWorker as _Worker
else:
    _Worker = object


class ForgetsSuccesses(_Worker):
    """Takes such a job out of Redis in three round trips; RQ reads what there is of it first, which takes ten."""

    def handle_execution_ended(self, job: Job, queue: Any, heartbeat_ttl: int) -> None:
        """Note the moment; a job without a callback goes no further, and needs no heartbeat for the rest of its way."""
        if leaves_nothing(job):
            job.ended_at = now()
        else:
            super().handle_execution_ended(job, queue, heartbeat_ttl)

    def handle_job_success(self, job: Job, queue: Any, started_job_registry: Any, execution: Execution) -> None:
        """Take the job out of Redis, or keep what it asks for; a job that others wait for is left to RQ."""
        if not (leaves_nothing(job) and self._forget(job, execution)):
            super().handle_job_success(job, queue, started_job_registry, execution)

    def _forget(self, job: Job, execution: Execution) -> bool:
        assert job.started_at is not None
        assert job.ended_at is not None
        took = job.ended_at - job.started_at
        with self.connection.pipeline() as pipeline:
            pipeline.watch(job.dependents_key)
            if pipeline.exists(job.dependents_key):
                return False
            pipeline.multi()
            self.increment_successful_job_count(pipeline)
            self.increment_total_working_time(took, pipeline)
            self.cleanup_execution(job, pipeline, execution)
            # There it is where it was taken for dead, or canceled, while it ran.
            job.failed_job_registry.remove(job, pipeline)
            CanceledJobRegistry(job.origin, connection=self.connection).remove(job, pipeline)
            keys = (job.key, job.dependents_key, job.dependencies_key, job.execution_registry.key)
            pipeline.delete(*keys, Result.get_key(job.id))
            try:
                pipeline.execute()
            except WatchError:
                return False
        self.log.info("Successfully completed %s job in %ss", job.description, took)
        return True


def leaves_nothing(job: Job) -> bool:
    """Whether nothing is kept of a job that goes well, nothing is called after it, and no other comes of it."""
    if job.result_ttl != 0 or job.get_status(refresh=False) == JobStatus.FAILED:
        return False
    follows = (job.repeats_left, job.group_id, job.has_rate_limit, job.success_callback)
    return not any(follows)
