"""A workflow class without a database: it reads its body, as the real one does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from flask_geneva.definition.workflow_definition import WorkflowDefinition, read_definition
from flask_geneva.errors import StepConfigurationError

RESERVED = frozenset({"cancel", "pause", "steps", "hero"})


class PlainWorkflow:
    definition: ClassVar[WorkflowDefinition]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.definition = read_definition(cls, reserved=RESERVED)


def names(cls: Any) -> list[str]:
    return list(cls.definition.steps)


def only_step(cls: Any) -> Any:
    (step,) = cls.definition.steps.values()
    return step


@contextmanager
def mistake(*phrases: str) -> Iterator[None]:
    """Expect the one error of definitions, with every phrase in its text."""
    with pytest.raises(StepConfigurationError) as caught:
        yield
    for phrase in phrases:
        assert re.search(re.escape(phrase), str(caught.value)), str(caught.value)
