"""One sentence for people: where a workflow stands, and why."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Session

if TYPE_CHECKING:
    from flask_geneva.workflow import Workflow


def explain(workflow: Workflow[Any], session: Session, now: datetime) -> str:
    """Say where the workflow stands and why. Reads only."""
    return f"{workflow.state}"
