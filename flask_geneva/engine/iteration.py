"""The object that a resumable step receives: its cursor, its checkpoints, and the loops that make them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from sqlalchemy import Select

from flask_geneva.definition.durations import read_duration
from flask_geneva.definition.flow_control import FlowControl
from flask_geneva.definition.verdicts import Suspended
from flask_geneva.engine.attempt import Attempt
from flask_geneva.engine.checkpoints import Checkpoints
from flask_geneva.engine.cursor_columns import CursorColumns
from flask_geneva.engine.keyset import Keyset
from flask_geneva.engine.run import Run
from flask_geneva.errors import InvalidStateError, StepConfigurationError

Item = TypeVar("Item")
Page = TypeVar("Page")
Every = int | timedelta


class IterableStep:
    """How far a resumable step is, and how it says so.

    A checkpoint stores the cursor and counts an iteration, and commits both together with the step's own writes, so
    that the work on each item is done exactly once in the application's database. After it the step may be stopped:
    by an operator, by its limits, or because the worker is to end. It goes on from the cursor in a new execution.
    """

    def __init__(self, checkpoints: Checkpoints, *, name: str, resumed: bool, limits: Limits) -> None:
        self.name = name
        self._checkpoints = checkpoints
        self._limits = limits
        self.resumed = resumed
        self.advanced = False

    def __repr__(self) -> str:
        of_total = "" if self.total is None else f" of {self.total}"
        return f"<IterableStep {self.name} at {self.cursor!r}, {self.iterations}{of_total} iterations>"

    @property
    def cursor(self) -> Any:
        """Where the step is; None before the first checkpoint of its chain."""
        return self._checkpoints.cursor

    @property
    def has_progressed(self) -> bool:
        """Whether a checkpoint of this execution has moved the stored cursor."""
        return self._checkpoints.has_progressed

    @property
    def iterations(self) -> int:
        """How many checkpoints this execution has made."""
        return self._checkpoints.count

    @property
    def total(self) -> int | None:
        """How many items (records, also where they come in batches) there are, for people who look.

        Stored with the next checkpoint.
        """
        return self._checkpoints.total

    @total.setter
    def total(self, value: int | None) -> None:
        if value is not None and (type(value) is not int or value < 0):
            raise InvalidStateError(f"The total of a resumable step is a whole number of items or None, not {value!r}.")
        self._checkpoints.total = value

    def set(self, value: object) -> None:
        """Move the cursor and make a checkpoint. Commits; may end the step here.

        :raises CursorTooLarge: above ``GENEVA_MAX_CURSOR_SIZE``.
        :raises PayloadNotSerializable: for a value that cannot be stored.
        """
        self._move(value)
        self.checkpoint()

    def advance(self) -> None:
        """Add one to the cursor, which must be an integer, and make a checkpoint. Commits; may end the step here."""
        if not isinstance(self.cursor, int) or isinstance(self.cursor, bool):
            raise InvalidStateError(
                f"Cannot advance the cursor {self.cursor!r}: advance() requires an integer cursor. "
                f"Give it one with set(0), or move it with set(value)."
            )
        self.set(self.cursor + 1)

    def checkpoint(self) -> None:
        """Store the cursor and the step's own writes, and look whether to stop. Commits; may end the step here."""
        self._store()
        if self._limits.are_reached(self.iterations):
            self._stop()

    def skip_to(self, value: object, wait: timedelta | float | None = None) -> NoReturn:
        """Move the cursor and end this execution; a new one goes on from there, after ``wait``."""
        duration = read_duration(wait, what="skip_to(wait=...)")
        self._move(value)
        self._stop(duration)

    def keep_place(self) -> None:
        """Let a cursor that is ahead of the last checkpoint be committed with the end of this execution."""
        self._checkpoints.keep_place()

    def forget(self) -> None:
        """Go back to the last checkpoint: what the step wrote since then is taken back."""
        self._checkpoints.forget()

    def note_commit(self) -> None:
        """The step has committed by itself."""
        self._checkpoints.note_commit()

    def suspend(self, wait: timedelta | float | None = None) -> NoReturn:
        """End this execution; a new one goes on behind the last item that is done, after ``wait``.

        What the step wrote since then is kept: call it before the work on an item, not in the midst of it.
        """
        self._stop(read_duration(wait, what="suspend(wait=...)"))

    def iterate_over(self, sequence: Iterable[Item], checkpoint_every: Every = 1) -> Iterator[Item]:
        """Yield the items that are left, with the index of the next one as cursor."""
        if isinstance(sequence, Set):
            raise StepConfigurationError(
                f"Cannot iterate over a {type(sequence).__name__}: it has no order in which the step could go on. "
                f"Give it one: sorted(...)."
            )
        start = 0 if self.cursor is None else self.cursor
        if type(start) is not int or start < 0:
            raise InvalidStateError(f"Cannot iterate over a sequence from the cursor {start!r}: it is no index.")
        items: Iterable[Item] = (
            itertools.islice(sequence, start, None) if not isinstance(sequence, Sequence) else _from(sequence, start)
        )
        return self._walk(((item, index, 1) for index, item in enumerate(items, start + 1)), checkpoint_every)

    def iterate_over_records(
        self,
        select: Select[Item],
        cursor: CursorColumns = None,
        batch_size: int = 1000,
        checkpoint_every: Every = 1,
    ) -> Iterator[Item]:
        """Yield the records of the query in the order of the cursor columns, the primary key where none are named.

        The columns must be unique together and never NULL; rows that are added behind the cursor are not seen.
        """
        pages = self._pages(select, cursor, batch_size)
        return self._walk(((record, key, 1) for page in pages for record, key in page), checkpoint_every)

    def iterate_over_batches(
        self,
        select: Select[Item],
        batch_size: int = 1000,
        cursor: CursorColumns = None,
        checkpoint_every: Every = 1,
    ) -> Iterator[list[Item]]:
        """Yield lists of at most ``batch_size`` records, and make a checkpoint after each list."""
        pages = self._pages(select, cursor, batch_size)
        lists = (([record for record, _ in page], page[-1][1], len(page)) for page in pages)
        return self._walk(lists, checkpoint_every)

    def _pages(self, select: Select[Item], cursor: CursorColumns, size: int) -> Iterator[list[tuple[Item, Any]]]:
        pages = Keyset(select, cursor).pages(self._checkpoints.session, self.cursor, size)
        return self._read_patiently(pages)

    def _read_patiently(self, pages: Iterator[Page]) -> Iterator[Page]:
        while True:
            with self._checkpoints.patiently():
                page = next(pages, None)
            if page is None:
                return
            yield page

    def _walk(self, items: Iterable[tuple[Item, Any, int]], every: Every) -> Iterator[Item]:
        """Yield each item, then move the cursor behind it, with a checkpoint when one is due and one for the rest.

        The limits are looked at before an item, and never before the first: no execution is in vain, neither one
        that begins when all is done nor one whose time is over before it begins.
        """
        return self._paced(items, _Pace(every))

    def _paced(self, items: Iterable[tuple[Item, Any, int]], pace: _Pace) -> Iterator[Item]:
        with self._checkpoints.in_loop():
            for item, behind, number in items:
                if self._has_done_enough(pace):
                    self._store_rest(pace)
                    self._stop()
                yield item
                self._checkpoints.pass_to(behind, items=number)
                self.advanced = True
                if pace.is_due():
                    self._store()
            self._store_rest(pace)

    def _has_done_enough(self, pace: _Pace) -> bool:
        return (self.iterations > 0 or pace.has_rest) and self._limits.are_reached(self.iterations)

    def _store_rest(self, pace: _Pace) -> None:
        if pace.has_rest:
            self._store()

    def _store(self) -> None:
        self._checkpoints.make()
        if self._checkpoints.asked_to_stop:
            self._stop()

    def _move(self, value: object) -> None:
        self._checkpoints.move(value)
        self.advanced = True

    def _stop(self, wait: timedelta | None = None) -> NoReturn:
        self._checkpoints.keep_place()
        raise FlowControl(Suspended(wait=wait, progressed=self.has_progressed))


class Limits:
    """When a resumable step has done enough for one execution."""

    def __init__(self, run: Run, *, max_iterations: int | None, max_runtime: timedelta | None) -> None:
        self._run = run
        self._max_iterations = max_iterations
        self._max_seconds = _max_seconds(max_runtime, run.time_limit.seconds)
        self._started = time.monotonic()

    def are_reached(self, iterations: int) -> bool:
        """Whether to stop after that many iterations."""
        if self._run.iteration_limit is not None:
            return iterations >= self._run.iteration_limit
        if self._run.ignores_limits:
            return False
        if self._max_iterations is not None and iterations >= self._max_iterations:
            return True
        if self._max_seconds is not None and time.monotonic() - self._started > self._max_seconds:
            return True
        return self._run.is_stopping()


def _max_seconds(max_runtime: timedelta | None, time_limit: float | None) -> float | None:
    """A step that makes checkpoints does not run into the time limit of its job: at half of it, it goes on in another.

    The other half is for the item that it is at then. A ``max_runtime`` below the limit stands as it is.
    """
    own = None if max_runtime is None else max_runtime.total_seconds()
    if time_limit is None or (own is not None and own < time_limit):
        return own
    return time_limit / 2


class _Pace:
    """Counts items, or looks at the clock, to say when a checkpoint is due."""

    def __init__(self, every: Every) -> None:
        least = timedelta(0) if isinstance(every, timedelta) else 0
        if isinstance(every, bool) or not isinstance(every, int | timedelta) or every <= least:  # type: ignore[operator]
            raise StepConfigurationError(
                f"checkpoint_every must be a positive number of items or a positive timedelta, not {every!r}."
            )
        self._every = every
        self._last = time.monotonic()
        self._items = 0

    @property
    def has_rest(self) -> bool:
        return self._items > 0

    def is_due(self) -> bool:
        self._items += 1
        if isinstance(self._every, timedelta):
            due = time.monotonic() - self._last >= self._every.total_seconds()
        else:
            due = self._items >= self._every
        if due:
            self._items = 0
            self._last = time.monotonic()
        return due


def iteration_of(run: Run, attempt: Attempt) -> IterableStep:
    """Make the object that the attempt's step receives."""
    limits = Limits(run, max_iterations=attempt.step.max_iterations, max_runtime=attempt.step.max_runtime)
    resumed = attempt.execution.continues_from_id is not None
    return IterableStep(Checkpoints(run, attempt), name=attempt.step.name, resumed=resumed, limits=limits)


def _from(sequence: Sequence[Item], start: int) -> Iterator[Item]:
    return (sequence[index] for index in range(start, len(sequence)))
