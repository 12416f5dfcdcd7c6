"""The heart of a process that runs jobs: one thread beats for all of them, one after another."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rq.executions import Execution
from rq.job import Job

logger = logging.getLogger(__name__)

Beat = Callable[[Job, Execution], None]


@dataclass
class _InHand:
    """A job that runs, and when its next beat is due."""

    job: Job
    execution: Execution
    due: float


class Heart:
    """Calls ``beat`` every ``interval`` seconds for as long as a job is in hand."""

    def __init__(self, beat: Beat, interval: float) -> None:
        self._beat = beat
        self._interval = interval
        self._in_hand: _InHand | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go, name="geneva heartbeat", daemon=True)
        self._thread.start()

    @contextmanager
    def beating_for(self, job: Job, execution: Execution) -> Iterator[None]:
        """Beat while the job within runs, for the first time when it has run for an interval."""
        self._in_hand = _InHand(job, execution, time.monotonic() + self._interval)
        try:
            yield
        finally:
            self._in_hand = None

    def stop(self) -> None:
        """Let the thread end."""
        self._over.set()

    def _go(self) -> None:
        while not self._over.wait(self._rest()):
            in_hand = self._in_hand
            if in_hand is not None and time.monotonic() >= in_hand.due:
                in_hand.due = time.monotonic() + self._interval
                self._beat_once(in_hand)

    def _rest(self) -> float:
        """How long nothing is due; a job that comes meanwhile has its first beat not before that."""
        in_hand = self._in_hand
        return self._interval if in_hand is None else max(0.0, in_hand.due - time.monotonic())

    def _beat_once(self, in_hand: _InHand) -> None:
        try:
            self._beat(in_hand.job, in_hand.execution)
        except Exception:
            # The jobs that come need the thread.
            logger.exception(
                "A heartbeat of job %s failed; the next one is due in %s s", in_hand.job.id, self._interval
            )
