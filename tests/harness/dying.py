"""A process that kills itself at a chosen moment of its conversation with the database."""

from __future__ import annotations

import itertools
import os
import signal
from typing import Any

from sqlalchemy import Engine, event


def die_at(moment: int, engine: Engine) -> None:
    """From now on count what the engine is asked to do, and end this process without a word before that request.

    Statements and commits count alike; request 1 is the next one. Only for a process that may die: a work-horse.
    """
    requests = itertools.count(1)

    def come_to_pass(*_: Any) -> None:
        if next(requests) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(engine, "before_cursor_execute", come_to_pass)
    event.listen(engine, "commit", come_to_pass)
