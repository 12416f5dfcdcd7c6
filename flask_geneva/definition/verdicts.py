"""How an attempt at a step ended, as values. What each does to the rows stands in one table of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias


@dataclass(frozen=True, kw_only=True)
class Completed:
    """The step did its work."""


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """The step is passed over; ``report`` asks for its error to reach the error tracker."""

    error: BaseException | None = None
    report: bool = False


@dataclass(frozen=True, kw_only=True)
class Reattempted:
    """The step is to be tried again, after ``wait``; ``rewind`` forgets the cursor.

    An attempt that ``progressed`` begins the count of errors anew.
    """

    wait: timedelta | None = None
    reason: str = "flow_control"
    error: BaseException | None = None
    rewind: bool = False
    report: bool = False
    progressed: bool = False


@dataclass(frozen=True, kw_only=True)
class Suspended:
    """A resumable step stopped at a checkpoint; a successor goes on from the cursor, after ``wait``."""

    wait: timedelta | None = None
    progressed: bool = True


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """The worker of the attempt died; ``action`` is what the application wants then: reattempt, cancel or pause.

    ``deaths`` says how many in a row this one makes; 0 where the step is not to blame.
    """

    error: BaseException | None = None
    action: str = "reattempt"
    deaths: int = 0


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The workflow is done, whatever steps remain; a handler may find so after an error."""

    error: BaseException | None = None
    report: bool = False


@dataclass(frozen=True, kw_only=True)
class Paused:
    """The workflow stops until an operator resumes it; with an error the attempt failed."""

    error: BaseException | None = None
    report: bool = False


@dataclass(frozen=True, kw_only=True)
class Canceled:
    """The workflow ends here; with an error the attempt failed."""

    error: BaseException | None = None
    report: bool = False


Verdict: TypeAlias = Completed | Skipped | Reattempted | Suspended | Recovered | Finished | Paused | Canceled
