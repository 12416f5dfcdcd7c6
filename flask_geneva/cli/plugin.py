"""``flask geneva`` as a plugin of ``flask``: it is there before an application is loaded, so that an application that
cannot be loaded is one line as well. The commands themselves are those of the application.
"""

from __future__ import annotations

import click
from flask import current_app
from flask.cli import ScriptInfo

from flask_geneva.cli.group import GenevaGroup, OneLine, one_line_errors


class ApplicationCommands(GenevaGroup):
    """The group ``geneva`` of the application that ``flask`` was called for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands; of an application that cannot be loaded there are none, and that is told."""
        try:
            with one_line_errors():
                return self._of_application(ctx).list_commands(ctx)
        except click.ClickException as error:
            error.show()
            return []

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of the application, in its context."""
        return self._of_application(ctx).get_command(ctx, cmd_name)

    def _of_application(self, ctx: click.Context) -> click.Group:
        app = ctx.ensure_object(ScriptInfo).load_app()
        if not current_app:
            ctx.with_resource(app.app_context())
        group = app.cli.commands.get("geneva")
        if not isinstance(group, click.Group):
            raise OneLine(f"The application '{app.name}' has no Geneva. Call geneva.init_app(app, db) in its factory.")
        return group


geneva = ApplicationCommands("geneva", help="Look at workflows, act on them, and run them.")
