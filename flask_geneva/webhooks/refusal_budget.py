"""How many refused requests may leave a row, so that nobody fills the disk with them."""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import Lock

ROWS_PER_HOUR = 100
_REFILL = timedelta(hours=1) / ROWS_PER_HOUR


class RefusalBudget:
    """A bucket of rows for each source of one application in one process, filled slowly."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._spent_until: dict[str, datetime] = {}

    def take(self, source: str, now: datetime) -> bool:
        """Answer whether one more refused request may leave a row."""
        with self._lock:
            spent_until = max(self._spent_until.get(source, now), now) + _REFILL
            if spent_until - now > ROWS_PER_HOUR * _REFILL:
                return False
            self._spent_until[source] = spent_until
            return True
