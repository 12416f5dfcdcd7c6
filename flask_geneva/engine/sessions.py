"""Sessions that the engine can work in: those of ``db.session``, and those that an application makes by itself."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from flask_geneva.engine import attempt, outbox, outgoing_signals, transactions
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.records.base import MODELS_KEY


def equip(sessions: Any) -> None:
    """Attach the engine to sessions: jobs are sent after their commits. A second call changes nothing."""
    attempt.listen(sessions)
    outbox.listen(sessions)
    outgoing_signals.listen(sessions)
    transactions.listen(sessions)


def adopted(session: Session) -> Session:
    """Return the session, able to do what those of ``db.session`` can, also when it was made as ``Session(engine)``."""
    if MODELS_KEY not in session.info:
        equip(session)
        session.info[MODELS_KEY] = current_runtime().session().info[MODELS_KEY]
    return session
