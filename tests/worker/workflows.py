"""Workflows whose steps wait for the test, or do what a worker must survive.

A step and its test meet in a folder: the step leaves a file with its process id, and waits for another to appear.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from sqlalchemy import text

from flask_geneva import ExceptionPolicy, IterableStep, Workflow, resumable_step, step
from tests.harness.models import Order, db, write_down

FOLDER_VARIABLE = "GENEVA_TEST_MEETING_PLACE"


def meeting_place() -> Path:
    """The folder in which steps and tests meet."""
    return Path(os.environ[FOLDER_VARIABLE])


def meet(name: str, *, long_enough: float = 60.0) -> None:
    """Tell the test that the step is here, and wait until it may go on."""
    arrivals = meeting_place() / name
    arrivals.mkdir(exist_ok=True)
    (arrivals / f"{time.time_ns()}").write_text(str(os.getpid()))
    give_up = time.monotonic() + long_enough
    while not (meeting_place() / f"{name} may go").exists():
        if time.monotonic() > give_up:
            raise AssertionError(f"Nobody let {name} go.")
        time.sleep(0.01)


class Meeting(Workflow[Order]):
    """A step, one that waits for the test, and another."""

    @step
    def before(self) -> None:
        write_down(self)

    @step
    def meeting(self) -> None:
        write_down(self)
        if db.engine.dialect.name != "sqlite":
            # There one writer would keep the test from writing meanwhile.
            db.session.flush()
        meet("meeting")

    @step
    def after(self) -> None:
        write_down(self)


class Quick(Workflow[Order]):
    """Two steps that want nothing."""

    @step
    def first(self) -> None:
        write_down(self)

    @step
    def second(self) -> None:
        write_down(self)


class Shortly(Workflow[Order]):
    """A step that is due after a moment."""

    @step(wait=1)
    def only(self) -> None:
        write_down(self)


class Counting(Workflow[Order]):
    """A resumable step that waits for the test in its third iteration."""

    @resumable_step
    def count(self, it: IterableStep) -> None:
        for item in it.iterate_over(range(5)):
            if item == 2:
                meet("counting")
            write_down(self, f"count {item}")


class Poison(Workflow[Order]):
    """A step that kills its worker."""

    @step
    def swallow(self) -> None:
        write_down(self)
        os.kill(os.getpid(), signal.SIGKILL)


class Exit(Workflow[Order]):
    """A step that leaves its process by the back door."""

    @step
    def leave(self) -> None:
        os._exit(3)


class PoliteExit(Workflow[Order]):
    """A step that ends its process."""

    @step
    def leave(self) -> None:
        write_down(self)
        raise SystemExit(4)


class Slow(Workflow[Order]):
    """A step that takes longer than it may, and tries to swallow what ends it."""

    job_options = {"timeout": 1}

    @step(on_exception=ExceptionPolicy("skip"))
    def sleepy(self) -> None:
        write_down(self)
        try:
            time.sleep(60)
        except Exception:
            write_down(self, "swallowed")

    @step
    def after(self) -> None:
        write_down(self)


class SeveralSlow(Workflow[Order]):
    """Steps of which each takes most of the time that one may take."""

    job_options = {"timeout": 1}

    def nap(self) -> None:
        time.sleep(0.6)
        write_down(self)

    naps = [step("nap") for _ in range(4)]


class Backend(Workflow[Order]):
    """Writes down which process of PostgreSQL serves it."""

    def look(self) -> None:
        write_down(self, str(db.session.scalar(text("SELECT pg_backend_pid()"))))

    looks = [step("look", job_options={"description": f"look {number}"}) for number in range(2)]


class Elsewhere(Workflow[Order]):
    """Its steps go to queues of their own."""

    job_options = {"queue": "elsewhere"}

    @step
    def here(self) -> None:
        write_down(self)

    @step(job_options={"queue": "far away"})
    def there(self) -> None:
        write_down(self)


class Processes(Workflow[Order]):
    """Each step is a job of its own, and writes down which process it runs in."""

    def look(self) -> None:
        write_down(self, str(os.getpid()))

    looks = [step("look", job_options={"description": f"look {number}"}) for number in range(4)]


class Failing(Workflow[Order]):
    """A step that writes down its process and lets the next one fail."""

    @step
    def look(self) -> None:
        write_down(self, str(os.getpid()))

    @step
    def fail(self) -> None:
        raise RuntimeError("on purpose")


class DeadlyCondition(Workflow[Order]):
    """A condition that kills the worker before the step has begun."""

    @step(skip_if=lambda workflow: os.kill(os.getpid(), signal.SIGKILL))
    def never(self) -> None:
        write_down(self)


class Long(Workflow[Order]):
    """Many short steps, some in a job of their own."""

    def mark(self) -> None:
        write_down(self)
        time.sleep(0.01)

    marks = [step("mark", job_options={"description": f"part {number // 3}"}) for number in range(9)]

    @resumable_step
    def count(self, it: IterableStep) -> None:
        for item in it.iterate_over(range(9)):
            write_down(self, f"count {item}")
            time.sleep(0.01)
