"""Blinker signals that tell subscribers what happens; the sender is always the application.

Those about a workflow carry ``workflow_id`` and ``workflow_class``, those about a step also ``execution_id``,
``step_name`` and ``resumable``. All facts are plain values, but for ``exception``.
"""

from __future__ import annotations

import logging
from typing import Any

from blinker import NamedSignal, Namespace
from flask import Flask

logger = logging.getLogger(__name__)

_namespace = Namespace()

workflow_created = _namespace.signal("workflow_created", "A workflow was created, and that is committed.")
precondition_evaluated = _namespace.signal(
    "precondition_evaluated",
    "The conditions before a step were answered: 'outcome' is passed, skipped, canceled or exception, or what a verb "
    "in a condition made of the step; 'exception' is what they raised, or None.",
)
step_started = _namespace.signal("step_started", "The code of a step is about to run.")
step_finished = _namespace.signal(
    "step_finished",
    "The code of a step has run and its ending is committed: 'outcome', 'step_state' and 'workflow_state' as the "
    "ending wrote them, 'duration' in seconds, and the 'exception' that the policies decided about, or None.",
)
workflow_paused = _namespace.signal("workflow_paused", "A workflow was paused, and that is committed.")
workflow_finished = _namespace.signal("workflow_finished", "A workflow is finished, and that is committed.")
workflow_canceled = _namespace.signal("workflow_canceled", "A workflow was canceled, and that is committed.")
signal_received = _namespace.signal("signal_received", "A signal was stored for a workflow, and that is committed.")
housekeeping_finished = _namespace.signal("housekeeping_finished", "A run of housekeeping is over: 'summary'.")


def send(signal: NamedSignal, app: Flask, **facts: Any) -> None:
    """Call every subscriber with the application and the facts; what one raises is logged and goes no further."""
    if not signal.receivers or signal.is_muted:
        return
    for receiver in signal.receivers_for(app):
        try:
            app.ensure_sync(receiver)(app, **facts)
        except Exception:
            logger.exception("A subscriber of '%s' failed: %r. Nothing else is touched by it.", signal.name, receiver)
