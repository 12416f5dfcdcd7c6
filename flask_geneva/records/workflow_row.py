"""One row of ``geneva_workflows``: what the engine knows of a workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask_geneva.records.saving import Row
from flask_geneva.records.tables import workflows

if TYPE_CHECKING:
    from datetime import datetime

    from flask_geneva.states import PendingRequest, WorkflowState


class WorkflowRow(Row):
    """A workflow, free of any session."""

    table = workflows

    if TYPE_CHECKING:
        id: int
        type: str
        hero_type: str | None
        hero_id: str | None
        state: WorkflowState
        current_step_name: str | None
        next_step_name: str | None
        pending_request: PendingRequest | None
        allow_multiple: bool
        started_at: datetime | None
        transitioned_at: datetime | None
        created_at: datetime
        updated_at: datetime
        details: dict[str, Any] | None
