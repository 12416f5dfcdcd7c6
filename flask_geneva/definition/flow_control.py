"""How a step ends itself: an exception that carries the verdict out of the step's code."""

from __future__ import annotations

from flask_geneva.definition.verdicts import Verdict


class FlowControl(BaseException):
    """Raised by ``skip()``, ``reattempt()`` and their kind inside a step.

    A ``BaseException``, so that ``except Exception`` in the step does not swallow it.
    """

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(verdict)
