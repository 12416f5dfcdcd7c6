"""A commit in doubt: the connection was lost before the answer came, so that only the rows can say what became of it.

The term is that of distributed databases for a transaction whose participant does not know its outcome.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from flask_geneva.engine.attempt import Attempt
from flask_geneva.engine.outbox import Notes, act_on
from flask_geneva.engine.transactions import read_current
from flask_geneva.records.step_execution import ExecutionRow
from flask_geneva.records.tables import step_executions


@dataclass(frozen=True)
class Doubt:
    """What a commit writes about the execution of a job, and what is to happen when it has come to pass.

    ``begun`` is the attempt that goes on in the same job then; ``notes`` are the jobs and events that follow.
    """

    execution: ExecutionRow
    begun: Attempt | None
    notes: Notes

    def came_to_pass(self, session: Session) -> bool:
        """Whether the stored execution is as the commit wrote it; its workflow must be locked.

        The lock waits for a commit that is still under way. State and job alone could be those of a row that was never
        touched, and the moment alone could be that of another transaction.
        """
        stored = read_current(session, ExecutionRow, step_executions.c.id == self.execution.id)
        return any(_trace(row) == _trace(self.execution) for row in stored)

    def settle(self) -> Attempt | None:
        """Do what the commit was to be followed by; return the attempt that goes on."""
        act_on(self.notes)
        return self.begun


def _trace(row: ExecutionRow) -> tuple[object, ...]:
    known = row.values()
    return known["state"], known["job_id"], known.get("updated_at")
