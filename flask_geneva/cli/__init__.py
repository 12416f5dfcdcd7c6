"""``flask geneva``: look at workflows, act on them, run them, and look after what they stand on.

The commands commit for themselves. ``geneva_group`` makes the group; the extension adds it to an application.
"""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name

import click

from flask_geneva.cli.group import GenevaGroup

# Where each command is. They are imported when they are asked for: a web process never is, and what they import,
# Alembic above all, takes longer than all the rest.
_COMMANDS = {
    "cancel": "flask_geneva.cli.acting:cancel",
    "check": "flask_geneva.cli.reading:check_code",
    "doctor": "flask_geneva.cli.doctor:examine",
    "graph": "flask_geneva.cli.graph:draw_graph",
    "housekeeping": "flask_geneva.cli.running:keep_house",
    "install": "flask_geneva.cli.install:install",
    "list": "flask_geneva.cli.reading:list_workflows",
    "pause": "flask_geneva.cli.acting:pause",
    "resume": "flask_geneva.cli.acting:resume",
    "resume-at": "flask_geneva.cli.acting:resume_at",
    "show": "flask_geneva.cli.showing:show_workflow",
    "signal": "flask_geneva.cli.acting:send_signal",
    "skip": "flask_geneva.cli.acting:skip",
    "stats": "flask_geneva.cli.reading:show_gauges",
    "webhooks": "flask_geneva.cli.deliveries:webhook_commands",
    "worker": "flask_geneva.cli.running:work",
}


class _LazyGroup(GenevaGroup):
    """A group that imports a command when it is asked for."""

    def __init__(self, name: str, *, places: Mapping[str, str], help: str) -> None:
        super().__init__(name, help=help)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands."""
        return sorted({*self._places, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; one that an application has added itself wins."""
        added = super().get_command(ctx, cmd_name)
        if added is not None or cmd_name not in self._places:
            return added
        command: click.Command = resolve_name(self._places[cmd_name])
        return command


def geneva_group() -> GenevaGroup:
    """Make the group ``geneva`` with its commands."""
    return _LazyGroup("geneva", places=_COMMANDS, help="Look at workflows, act on them, and run them.")
