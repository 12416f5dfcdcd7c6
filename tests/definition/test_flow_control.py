"""A verdict leaves a step by an exception that the step cannot swallow by accident."""

from __future__ import annotations

import pytest

from flask_geneva.definition.flow_control import FlowControl
from flask_geneva.definition.verdicts import Skipped


def test_a_step_that_catches_every_exception_does_not_swallow_a_verdict() -> None:
    def careless() -> None:
        try:
            raise FlowControl(Skipped())
        except Exception:
            return

    with pytest.raises(FlowControl) as caught:
        careless()

    assert caught.value.verdict == Skipped()
