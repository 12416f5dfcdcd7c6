"""``flask geneva install`` and the other commands that keep things going."""

from __future__ import annotations

from pathlib import Path

import flask_migrate
import pytest
from flask import Flask
from flask_migrate import Migrate

from tests.cli.conftest import Cli
from tests.harness.models import db

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def migrations(app: Flask, tmp_path: Path) -> Path:
    """The migrations folder of an application that has no revision yet."""
    folder = tmp_path / "migrations"
    Migrate(app, db, directory=str(folder))
    flask_migrate.init(str(folder))
    return folder


def test_the_revisions_are_installed_once(cli: Cli, migrations: Path) -> None:
    # INS-01 INS-02
    done = cli("install")
    again = cli("install")

    assert done.exit_code == again.exit_code == 0
    assert done.stdout.splitlines()[-1] == "Next: flask db upgrade"
    written = [Path(line.removeprefix("Wrote ")) for line in done.stdout.splitlines() if line.startswith("Wrote ")]
    assert written == sorted((migrations / "versions").glob("geneva_*.py"))
    assert again.stdout == "Nothing to install: every revision is there already.\n"


def test_another_folder_can_be_named(cli: Cli, migrations: Path, tmp_path: Path) -> None:
    migrations.rename(tmp_path / "elsewhere")

    assert cli("install").exit_code == 1
    assert cli("install", "--directory", tmp_path / "elsewhere").exit_code == 0


def test_without_a_folder_the_command_that_makes_it_is_told(cli: Cli, tmp_path: Path) -> None:
    done = cli("install", "-d", tmp_path / "none")

    assert done.exit_code == 1
    assert "Run 'flask db init' first" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_doctor_tells_that_revisions_are_to_be_installed(cli: Cli, migrations: Path) -> None:
    assert "Run 'flask geneva install'." in cli("doctor").stdout

    cli("install")

    assert "Run 'flask geneva install'." not in cli("doctor").stdout
