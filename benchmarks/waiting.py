"""A workflow that waits for a signal, and many of them parked with two statements."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import text

from benchmarks.place import db, geneva
from flask_geneva import Workflow, step

WOKEN_AT = "geneva-bench-woken"

_WORKFLOWS = """
INSERT INTO geneva_workflows (type, state, next_step_name, allow_multiple, created_at, updated_at)
SELECT 'Parked', 'ready', 'woken', true, now(), now() FROM generate_series(1, :number) RETURNING id
"""
_EXECUTIONS = """
INSERT INTO geneva_step_executions (workflow_id, step_name, state, scheduled_for, waiting_since,
    completed_iterations, error_reattempts, death_reattempts, stalled_runs, created_at, updated_at)
SELECT id, 'woken', 'waiting', now(), now(), 0, 0, 0, 0, now(), now() FROM geneva_workflows WHERE id >= :first
"""


class Parked(Workflow[Any]):
    """Waits for a signal, and says when it came."""

    may_proceed_without_hero = True

    @step(wait_for="go")
    def woken(self) -> None:
        geneva.redis.rpush(WOKEN_AT, str(time.time()))


def park(number: int) -> list[int]:
    """Write that many parked workflows, and return their ids."""
    ids = [row.id for row in db.session.execute(text(_WORKFLOWS), {"number": number})]
    db.session.execute(text(_EXECUTIONS), {"first": ids[0]})
    db.session.commit()
    db.session.execute(text("ANALYZE geneva_workflows, geneva_step_executions, geneva_signals"))
    db.session.commit()
    return ids
