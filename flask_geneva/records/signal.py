"""An event that was delivered to a workflow: the row as the engine knows it, and the class that applications read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Mapped, Session, object_session, relationship

from flask_geneva.records.base import Base, models_known_to
from flask_geneva.records.saving import Row
from flask_geneva.records.tables import signals, workflows
from flask_geneva.records.values import decode

if TYPE_CHECKING:
    from datetime import datetime

    from flask_geneva.states import SignalState
    from flask_geneva.workflow import Workflow


class SignalRow(Row):
    """A signal, free of any session."""

    table = signals

    if TYPE_CHECKING:
        id: int
        workflow_id: int
        name: str
        idempotency_key: str | None
        state: SignalState
        payload: Any
        claimed: int
        consumed: int
        claimed_at: datetime | None
        consumed_at: datetime | None


class Signal(Base):
    """An event with a name, a payload and, where its sender gave one, an idempotency key."""

    __table__ = signals
    __mapper_args__ = {"properties": {"stored_payload": signals.c.payload}}  # noqa: RUF012

    if TYPE_CHECKING:
        id: Mapped[int]
        workflow_id: Mapped[int]
        name: Mapped[str]
        idempotency_key: Mapped[str | None]
        state: Mapped[SignalState]
        claimed: Mapped[int]
        consumed: Mapped[int]
        claimed_at: Mapped[datetime | None]
        consumed_at: Mapped[datetime | None]
        created_at: Mapped[datetime]
        updated_at: Mapped[datetime]
        stored_payload: Mapped[Any]
        workflow: Mapped[Workflow[Any]]

    workflow = relationship(
        "Workflow",
        primaryjoin=signals.c.workflow_id == workflows.c.id,
        foreign_keys=[signals.c.workflow_id],
        back_populates="signals",
    )

    # Set on the object that a second delivery returns; it is not stored.
    duplicate_delivery: bool = False
    _reading_session: Session | None = None

    @property
    def payload(self) -> Any:
        """The payload as it was sent.

        :raises ReferencedRecordMissing: when it refers to a record or a class that is gone.
        """
        session = object_session(self) or self._reading_session
        return decode(self.stored_payload, session, models_known_to(session))

    def __repr__(self) -> str:
        return f"<Signal #{self.id} {self.name} {self.state}>"
