"""Whatever goes wrong is one line on stderr that says what to do, and an exit status of 1 or 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flask import Flask
from sqlalchemy import text

from tests.cli.conftest import Cli, commands_of
from tests.cli.workflows import ParcelDispatch
from tests.harness.apps import make_app
from tests.harness.models import Order, db

BuildApp = Callable[..., Flask]
CLOSED_PORT = 1


def assert_one_line(done: Result, status: int = 1) -> str:
    """The command ended in one line; answers it."""
    assert done.exit_code == status
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch"], "No such command 'nosuch'"),
        (["show"], "Missing argument 'ID'"),
        (["show", "abc"], "'abc' is no workflow's id, which is a whole number"),
        (["show", "-5"], "No such option"),
        (["resume", "1", "two"], "'two' is no workflow's id"),
        (["list", "--state", "done"], "'done' is not one of"),
        (["list", "--older-than", "3"], "'3' is no age. Write a number and a unit, such as 90s"),
        (["list", "--limit", "0"], "0 is not in the range"),
        (["resume-at", "1"], "either ids, or a selection"),
        (["worker", "--processes", "2", "--no-fork"], "--no-fork is one process"),
    ],
)
@pytest.mark.databases("sqlite")
def test_a_command_that_is_called_wrongly_has_exit_status_2(cli: Cli, arguments: list[str], words: str) -> None:
    assert words in assert_one_line(cli(*arguments), status=2)


@pytest.mark.parametrize("command", [["show"], ["pause"], ["cancel"], ["signal", "paid"], ["resume-at", "reserve"]])
@pytest.mark.parametrize("workflow_id", [1, 0, 2**63 - 1, 2**63, 10**30])
def test_a_workflow_that_is_not_there_is_named(cli: Cli, command: list[str], workflow_id: int) -> None:
    name, *more = command

    error = assert_one_line(cli(name, workflow_id, *more))

    shown = workflow_id if workflow_id < 2**63 else 0
    assert error == f"Error: There is no workflow #{shown}.\n"


@pytest.mark.parametrize("command", [["list"], ["pause", "--yes"], ["cancel", "--yes"]])
@pytest.mark.databases("sqlite")
def test_a_class_that_nobody_knows_is_refused_with_the_nearest(cli: Cli, command: list[str]) -> None:
    error = assert_one_line(cli(*command, "--class", "ParcelDispach"))

    assert "There is no workflow class 'ParcelDispach'" in error
    assert "Did you mean 'ParcelDispatch'?" in error


@pytest.mark.parametrize("command", [["list"], ["skip", "--yes"]])
@pytest.mark.databases("sqlite")
def test_a_step_that_nobody_knows_is_refused_with_the_nearest(cli: Cli, command: list[str]) -> None:
    error = assert_one_line(cli(*command, "--class", "ParcelDispatch", "--step", "captur"))

    assert "There is no step 'captur' in ParcelDispatch" in error
    assert "Did you mean 'capture'?" in error


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["check"],
        ["stats"],
        ["show", 1],
        ["cancel", 1],
        ["signal", 1, "paid"],
        ["housekeeping"],
        ["worker", "--burst"],
    ],
)
def test_missing_tables_are_told_with_the_commands_that_make_them(
    build_app: BuildApp, tmp_path: Path, command: list[Any]
) -> None:
    # INS-08
    app = build_app(SQLALCHEMY_DATABASE_URI=f"sqlite:///{tmp_path / 'empty.db'}")
    with app.app_context():
        db.drop_all()
        error = assert_one_line(commands_of(app)(*command))

    assert "The database lacks the table 'geneva_" in error
    assert "'flask geneva install' and then 'flask db upgrade'" in error


@pytest.mark.databases("sqlite")
def test_a_missing_column_is_told(cli: Cli) -> None:
    db.session.execute(text("ALTER TABLE geneva_step_executions DROP COLUMN iteration_total"))
    db.session.execute(text("ALTER TABLE geneva_workflows DROP COLUMN pending_request"))
    db.session.commit()

    error = assert_one_line(cli("list"))

    assert (
        "lacks the column 'geneva_step_executions.iteration_total', the column 'geneva_workflows.pending_req" in error
    )


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://shop:hush@127.0.0.1:{CLOSED_PORT}/shop",
        f"mysql+pymysql://shop:hush@127.0.0.1:{CLOSED_PORT}/shop",
        "sqlite:////nowhere/at/all.db",
    ],
)
@pytest.mark.parametrize("command", [["list"], ["cancel", 1, 2], ["housekeeping"], ["worker", "--burst"]])
@pytest.mark.databases("sqlite")
def test_a_database_that_cannot_be_reached_is_told_without_its_password(
    unreachable: Callable[[str], Cli], url: str, command: list[Any]
) -> None:
    error = assert_one_line(unreachable(url)(*command))

    assert "Cannot reach the database at " in error
    assert "correct SQLALCHEMY_DATABASE_URI" in error
    assert "hush" not in error


@pytest.mark.parametrize("command", [["worker"], ["worker", "--burst", "--no-fork"]])
@pytest.mark.databases("sqlite")
def test_a_redis_that_cannot_be_reached_is_told_without_its_password(build_app: BuildApp, command: list[str]) -> None:
    app = build_app(f"redis://:hush@127.0.0.1:{CLOSED_PORT}/0")

    error = assert_one_line(commands_of(app)(*command))

    assert f"Cannot reach Redis at redis://***@127.0.0.1:{CLOSED_PORT}/0: " in error
    assert "correct GENEVA_REDIS_URL" in error


@pytest.mark.databases("sqlite")
def test_verbs_do_without_redis(build_app: BuildApp) -> None:
    app = build_app(f"redis://127.0.0.1:{CLOSED_PORT}/0")
    with app.app_context():
        order = Order()
        db.session.add(order)
        db.session.flush()
        workflow_id = ParcelDispatch.create(hero=order).id
        db.session.commit()

        assert commands_of(app)("pause", workflow_id).exit_code == 0
        assert commands_of(app)("resume", workflow_id).exit_code == 0


@pytest.fixture
def unreachable(build_app: BuildApp, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Cli]:
    """Builds an application whose database is away, and answers its commands."""

    def build(url: str) -> Cli:
        monkeypatch.setattr("flask_geneva.engine.transactions.time.sleep", lambda seconds: None)
        return commands_of(make_app(url))

    return build


@pytest.mark.databases("sqlite")
def test_housekeeping_that_could_not_do_all_of_its_work_says_so(cli: Cli) -> None:
    db.session.execute(text("ALTER TABLE geneva_workflows RENAME COLUMN transitioned_at TO away"))
    db.session.commit()

    done = cli("housekeeping")

    assert done.exit_code == 1
    assert "workflows rescheduled: 0\n" in done.stdout
    assert "could not be mended; the log says why. The next run tries again." in done.stderr
