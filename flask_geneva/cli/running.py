"""The commands that keep workflows going: worker and housekeeping."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from flask import Flask, current_app
from sqlalchemy import false, select

from flask_geneva.cli.group import OneLine, in_application
from flask_geneva.cli.options import as_json_option
from flask_geneva.cli.printing import print_json
from flask_geneva.housekeeping.run import SECTIONS, Progress, run_housekeeping
from flask_geneva.records.tables import step_executions, workflows
from flask_geneva.worker.running import run_worker


@click.command("worker")
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@click.option(
    "--processes", type=click.IntRange(min=1), default=1, show_default=True, help="Work in so many processes."
)
@click.option("--burst", is_flag=True, help="Stop when the queues are empty.")
@click.option(
    "--no-fork", is_flag=True, help="Run steps in the worker's own process: faster, but one that dies ends it."
)
@in_application
def work(queues: tuple[str, ...], processes: int, burst: bool, no_fork: bool) -> None:
    """Run steps, delayed ones and housekeeping included; Ctrl-C and SIGTERM let the step in hand end."""
    if no_fork and processes > 1:
        raise click.UsageError("--no-fork is one process. Start several workers, or leave one of the options out.")
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    _require_tables(app)
    app.extensions["geneva"].queue.redis.ping()
    run_worker(app, queues, processes=processes, burst=burst, fork=not no_fork)
    # Else the interpreter looks through all that was loaded once more before the process ends, which takes a while.
    gc.freeze()


@click.command("housekeeping")
@as_json_option
@in_application
def keep_house(as_json: bool) -> None:
    """Do one run of housekeeping, and print what it did; exit 1 where some of it failed."""
    state = current_app.extensions.get("geneva")
    if state is None:
        raise OneLine(f"The application '{current_app.name}' has no Geneva.")
    _require_tables(current_app)
    with _progress() as progress:
        done = run_housekeeping(state.runtime, progress).as_dict()
    if as_json:
        print_json(done)
    else:
        for name, number in done.items():
            click.echo(f"{name.replace('_', ' ')}: {number}")
    if done.get("failures"):
        raise OneLine(f"{done['failures']} things could not be mended; the log says why. The next run tries again.")


def _require_tables(app: Flask) -> None:
    """Fail before anything begins where no step could run: the database is away, or lacks the tables of every step."""
    with app.extensions["geneva"].db.engine.connect() as connection:
        for table in (workflows, step_executions):
            connection.execute(select(table.c.id).where(false()))


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show on a terminal which section housekeeping is at, and how many pieces of work it has done there."""
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=len(SECTIONS), label="housekeeping", item_show_func=str, file=sys.stderr) as bar:
        started: list[str] = []

        def progress(section: str, done: int) -> None:
            if section not in started:
                # The sections before it are done.
                bar.update(1 if started else 0)
                started.append(section)
            bar.current_item = f"{section.replace('_', ' ')}: {done}"
            bar.render_progress()

        yield progress
        bar.current_item = "done"
        bar.update(1)
