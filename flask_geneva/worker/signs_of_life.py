"""What a worker tells Redis between two jobs: that it lives, and that it is idle.

RQ says each several times between two jobs, in a round trip for every command. The look for a suspension that precedes
each job carries a sign of life as well, with the same expiry; one that follows it at once would add nothing.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from rq.worker import WorkerStatus

if TYPE_CHECKING:
    from rq.worker import BaseWorker as _Worker
else:
    _Worker = object


class GivesSignsOfLife(_Worker):
    """Repeats no sign of life within a second, and tells that it is idle with the next one."""

    repeat_after = 1.0
    _last_sign = -math.inf
    _owes_state = False

    def check_for_suspension(self, burst: bool) -> None:
        """Rest while workers are suspended; RQ asks with a sign of life in the same round trip."""
        super().check_for_suspension(burst)
        self._has_signed()

    def dequeue_job_and_maintain_ttl(self, *arguments: Any, **options: Any) -> Any:
        """Take the next job; what an outage has kept from being said is said before the wait for it."""
        if self._owes_state or self.get_state() == WorkerStatus.BUSY:
            self._last_sign = -math.inf
        return super().dequeue_job_and_maintain_ttl(*arguments, **options)

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Tell Redis that the worker lives, in one round trip; what would only repeat the last sign is left out."""
        if pipeline is not None:
            super().heartbeat(timeout, pipeline)
            # Those within a job have an expiry of their own, and come from other threads.
            if timeout is None and self._owes_state:
                super().set_state(self.get_state(), pipeline)
            return
        if time.monotonic() - self._last_sign < self.repeat_after:
            return
        with self.connection.pipeline() as own:
            self.heartbeat(timeout, own)
            own.execute()
        self._has_signed()

    def set_state(self, state: str, pipeline: Any = None) -> None:
        """Tell Redis what the worker does: that it is idle after a job with the next sign of life, else at once."""
        if pipeline is None and state == self.get_state():
            return
        self._owes_state = pipeline is None and state == WorkerStatus.IDLE and self.get_state() == WorkerStatus.BUSY
        if self._owes_state:
            self._state = state
        else:
            super().set_state(state, pipeline)

    def _has_signed(self) -> None:
        self._last_sign = time.monotonic()
        self._owes_state = False
