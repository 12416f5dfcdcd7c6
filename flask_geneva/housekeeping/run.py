"""One run of housekeeping: the sections in their order, each piece of work in a transaction of its own."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import timedelta

from flask_geneva import events
from flask_geneva.engine.runtime import Runtime
from flask_geneva.engine.transactions import retry_transient
from flask_geneva.housekeeping.broken_workflows import broken_workflows
from flask_geneva.housekeeping.dead_executions import Death, dead_executions, of_job
from flask_geneva.housekeeping.lost_jobs import lost_jobs
from flask_geneva.housekeeping.retention import retention
from flask_geneva.housekeeping.tasks import Counts, Sweep, Task

logger = logging.getLogger(__name__)

Progress = Callable[[str, int], object]

PATIENCE = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 0)
SECTIONS: tuple[Callable[[Sweep], Iterator[Task]], ...] = (lost_jobs, dead_executions, broken_workflows, retention)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What one run did.

    ``stuck_scheduled_recovered`` counts jobs that were sent again, ``workflows_rescheduled`` those that had nothing to
    come, ``parked_steps_released`` steps that were parked though their signal had come or is not needed any more,
    ``strays_closed`` open executions of ended workflows. ``failures`` were logged, and are tried in the next run.
    """

    stuck_scheduled_recovered: int = 0
    stuck_in_progress_recovered: int = 0
    workflows_rescheduled: int = 0
    gravestones_released: int = 0
    parked_steps_released: int = 0
    strays_closed: int = 0
    signals_cleaned_up: int = 0
    step_executions_cleaned_up: int = 0
    workflows_cleaned_up: int = 0
    webhook_deliveries_cleaned_up: int = 0
    failures: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


def run_housekeeping(
    runtime: Runtime, progress: Progress | None = None, *, overdue_after: timedelta | None = None
) -> Summary:
    """Mend what was lost and delete what is old, once, in the application's context.

    Commits what the session holds, and then a transaction for each row. Two runs at once do no harm.

    :param progress: called with the section's name and how many pieces of work are done; what it raises ends the run.
    :param overdue_after: instead of ``GENEVA_STUCK_SCHEDULED_THRESHOLD``, when Redis is known to have lost its memory.
    """
    sweep = _sweep(runtime, overdue_after)
    counts: Counter[str] = Counter()
    for section in SECTIONS:
        counts.update(_do_section(sweep, section, progress))
    summary = Summary(**{field.name: counts[field.name] for field in fields(Summary)})
    events.send(events.housekeeping_finished, runtime.app, summary=summary)
    return summary


def recover_job(
    runtime: Runtime, job_id: str, execution_id: int, death: Death, *, also_scheduled: bool = False
) -> Summary:
    """Recover at once the execution that a job had in hand when its process died. Commits.

    The database may notice the death later than we do, and hold the rows until then; they are waited for a little.
    """
    sweep = _sweep(runtime, None)
    for patience in PATIENCE:
        counts: Counter[str] = Counter()
        tasks = list(of_job(sweep, job_id, execution_id, death, also_scheduled=also_scheduled))
        for task in tasks:
            counts.update(_do(sweep, task))
        if counts or not tasks:
            break
        time.sleep(patience)
    return Summary(**counts)


def _sweep(runtime: Runtime, overdue_after: timedelta | None) -> Sweep:
    session = runtime.session()
    session.commit()
    threshold = runtime.settings.stuck_scheduled_threshold
    return Sweep(
        runtime=runtime,
        session=session,
        now=runtime.now(),
        overdue_after=threshold if overdue_after is None else overdue_after,
    )


def _do_section(sweep: Sweep, section: Callable[[Sweep], Iterator[Task]], progress: Progress | None) -> Counter[str]:
    counts: Counter[str] = Counter()
    tasks = section(sweep)
    done = 0
    while True:
        if progress is not None:
            progress(section.__name__, done)
        try:
            task = next(tasks, None)
        except Exception as error:
            sweep.session.rollback()
            logger.warning(
                "Housekeeping could not go on with %s, and goes on with what follows: %s", section.__name__, error
            )
            counts.update(failures=1)
            return counts
        if task is None:
            return counts
        counts.update(_do(sweep, task))
        done += 1


def _do(sweep: Sweep, task: Task) -> Counts:
    """Do the work and commit; where it fails, its parts, and where there are none, leave it to the next run."""
    try:
        return retry_transient(sweep.session, lambda: _committed(sweep, task))
    except Exception as error:
        sweep.session.rollback()
        parts = list(task.parts())
        if parts:
            return sum((Counter(_do(sweep, part)) for part in parts), Counter())
        logger.exception("Housekeeping could not mend %s: %s", task.subject, error)
        return {"failures": 1}


def _committed(sweep: Sweep, task: Task) -> Counts:
    counts = task.work()
    sweep.session.commit()
    return counts
