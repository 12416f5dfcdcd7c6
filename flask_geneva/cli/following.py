"""A workflow as it goes on: each change of its timeline when it comes, and a bar for a resumable step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import click
from sqlalchemy.orm import Session

from flask_geneva.cli.printing import printable
from flask_geneva.cli.timeline_lines import lines_of
from flask_geneva.engine.progress import Progress, progress_of
from flask_geneva.insights.timelines import Timeline
from flask_geneva.records.signal import Signal
from flask_geneva.records.step_execution import StepExecution
from flask_geneva.states import ENDED_WORKFLOW_STATES, StepState

# In seconds; a look costs the database three reads.
INTERVAL = 0.5

Entry = StepExecution | Signal


class Follower:
    """Tells of each entry of a timeline when it is new or its state has changed, until the workflow has ended."""

    def __init__(self, look: Callable[[], Timeline], *, with_traceback: bool) -> None:
        self._look = look
        self._with_traceback = with_traceback
        self._told: dict[tuple[type, int], str] = {}
        self._bar = _Bar()

    def follow(self, session: Session) -> None:
        """Go on until the workflow has ended, or the user has seen enough. Leaves no transaction open between looks."""
        with suppress(KeyboardInterrupt):
            while not self._tell(self._look()):
                session.rollback()
                time.sleep(INTERVAL)
        self._bar.remove()

    def _tell(self, timeline: Timeline) -> bool:
        for entry in timeline.entries:
            self._tell_entry(entry)
        self._bar.show(_progress_of_step_in_hand(timeline.executions))
        workflow = timeline.workflow
        if workflow.state not in ENDED_WORKFLOW_STATES:
            return False
        self._bar.remove()
        click.echo(printable(f"{workflow.type} #{workflow.id}: {workflow.explain()}."))
        return True

    def _tell_entry(self, entry: Entry) -> None:
        key = (type(entry), entry.id)
        if self._told.get(key) == entry.state:
            return
        self._told[key] = entry.state
        self._bar.remove()
        for line in lines_of(entry, with_traceback=self._with_traceback):
            click.echo(printable(line))


class _Bar:
    """How far one step is, on a line that is drawn anew; only on a terminal. Without a total it is words."""

    def __init__(self) -> None:
        self._is_on_terminal = sys.stdout.isatty()
        self._drawn: Any = None

    def show(self, found: tuple[str, Progress] | None) -> None:
        """Draw, or draw anew, how far the step in hand is."""
        if found is None or not self._is_on_terminal:
            return
        name, progress = found
        if progress.total is None:
            self._drawn = _Words()
            self._drawn.say(f"{name}: {progress}")
            return
        if self._drawn is None:
            self._drawn = click.progressbar(length=progress.total, label=name, show_pos=True)
        self._drawn.update(progress.done - self._drawn.pos)

    def remove(self) -> None:
        """Leave the line, where there is one."""
        if self._drawn is not None:
            self._drawn.render_finish()
            self._drawn = None


class _Words:
    """A line for what has no length."""

    def say(self, text: str) -> None:
        """Write it over what was said before."""
        click.echo(f"\r\x1b[K{text}", nl=False)

    def render_finish(self) -> None:
        """Begin the next line."""
        click.echo()


def _progress_of_step_in_hand(executions: Sequence[StepExecution]) -> tuple[str, Progress] | None:
    if not executions or executions[-1].state is not StepState.IN_PROGRESS or not executions[-1].completed_iterations:
        return None
    newest = executions[-1]
    return newest.step_name, progress_of(newest, newest.continues_from)
