"""``flask geneva``: look at workflows, act on them, run them, and look after what they stand on.

The commands commit for themselves. ``geneva_group`` makes the group; the extension adds it to an application, together
with the commands of its other parts.
"""

from __future__ import annotations

from collections.abc import Iterable

import click

from flask_geneva.cli import acting, doctor, graph, install, reading, running
from flask_geneva.cli.group import GenevaGroup

_COMMANDS: tuple[click.Command, ...] = (
    reading.list_workflows,
    reading.show_workflow,
    reading.check_code,
    reading.show_gauges,
    graph.draw_graph,
    acting.pause,
    acting.resume,
    acting.resume_at,
    acting.skip,
    acting.cancel,
    acting.send_signal,
    running.work,
    running.keep_house,
    install.install,
    doctor.examine,
)


def geneva_group(more: Iterable[click.Command] = ()) -> GenevaGroup:
    """Make the group ``geneva`` with its commands, and with more of them."""
    group = GenevaGroup("geneva", help="Look at workflows, act on them, and run them.")
    for command in (*_COMMANDS, *more):
        group.add_command(command)
    return group
