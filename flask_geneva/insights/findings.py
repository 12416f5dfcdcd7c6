"""What a check of the code finds, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that does not fit, or that can be tidied up; ``workflow_id`` is the oldest of ``count`` workflows."""

    kind: str
    text: str
    class_name: str
    step_name: str | None = None
    count: int = 0
    workflow_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """What must be mended before a deploy, and advice that may be followed or not."""

    problems: tuple[Finding, ...]
    advice: tuple[Finding, ...]
