"""Loggers whose lines name the workflow, its hero, the execution and the step, for people and for machines."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import Any

WORKFLOW_LOGGER = "flask_geneva.workflow"


class StepLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that puts the facts of a workflow before each message, and as fields on each record.

    The caller's own ``extra=`` is kept, and wins where it names a field of the same name.
    """

    def __init__(self, logger: logging.Logger, facts: Mapping[str, object]) -> None:
        super().__init__(logger, facts)
        self._facts = facts

    @cached_property
    def prefix(self) -> str:
        """What stands before every message, such as ``[OrderFulfillment #4 Order 7, ship #12]``."""
        facts = self._facts
        words = [f"{facts['workflow_class']} #{facts['workflow_id']}"]
        if facts["hero_type"] is not None:
            words.append(f"{facts['hero_type']} {facts['hero_id']}")
        attempt = [str(facts["step_name"])] if facts["step_name"] is not None else []
        if facts["execution_id"] is not None:
            attempt.append(f"#{facts['execution_id']}")
        text = ", ".join(filter(None, [" ".join(words), " ".join(attempt)]))
        return f"[{_on_one_line(text)}]"

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log below the prefix; nothing is composed when the level is off."""
        if not self.isEnabledFor(level):
            return
        kwargs["extra"] = {**self._facts, **(kwargs.get("extra") or {})}
        # One frame more, so that a record names the line of the caller.
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        prefix = self.prefix.replace("%", "%%") if args else self.prefix
        self.logger.log(level, f"{prefix} {msg}", *args, **kwargs)


def logger_for(
    workflow_type: str,
    workflow_id: int | None,
    hero_type: str | None,
    hero_id: str | None,
    execution_id: int | None = None,
    step_name: str | None = None,
    base: logging.Logger | None = None,
) -> StepLogger:
    """Return a logger for a workflow, or for one attempt at a step; below it is one logger for each workflow class."""
    facts = {
        "workflow_class": workflow_type,
        "workflow_id": workflow_id,
        "hero_type": hero_type,
        "hero_id": hero_id,
        "execution_id": execution_id,
        "step_name": step_name,
    }
    return StepLogger(base or logging.getLogger(f"{WORKFLOW_LOGGER}.{workflow_type}"), facts)


def _on_one_line(text: str) -> str:
    """A hero's key may hold any character; a line break in it would forge a line of the log."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
