"""``flask geneva check``: what a deploy would strand, with the rows in flight or without any database."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from flask import Flask
from sqlalchemy import event, update

from flask_geneva import Workflow, step
from flask_geneva.records.tables import step_executions
from tests.cli.conftest import Cli, change
from tests.harness.models import Order, db

Start = Callable[..., int]


class NumberedDispatch(Workflow[Order]):
    """Knocks twice, by numbered steps and by named ones."""

    knocks = [step("knock", wait=wait) for wait in (0, 30)]
    rings = [step("knock", name="first_ring"), step("knock", name="second_ring", wait=30)]

    def knock(self) -> None:
        """Do nothing."""


def lines(cli: Cli, *arguments: str) -> list[str]:
    return cli("check", *arguments).stdout.splitlines()


def stand_at(workflow_id: int, step_name: str) -> None:
    change(workflow_id, next_step_name=step_name)
    db.session.execute(
        update(step_executions).where(step_executions.c.workflow_id == workflow_id).values(step_name=step_name)
    )
    db.session.commit()


def at_a_knock(step_name: str) -> int:
    order = Order()
    db.session.add(order)
    workflow = NumberedDispatch.create(hero=order)
    db.session.commit()
    stand_at(workflow.id, step_name)
    return workflow.id


def test_the_code_alone_is_checked_without_a_database(app: Flask, cli: Cli) -> None:
    asked: list[str] = []

    def ask(connection: object, cursor: object, statement: str, *others: object) -> None:
        asked.append(statement)

    event.listen(db.engine, "before_cursor_execute", ask)
    checked = cli("check", "--code-only")
    event.remove(db.engine, "before_cursor_execute", ask)

    assert (checked.exit_code, asked) == (0, [])
    assert "The workflow classes are in order. Rows in flight were not looked at." in checked.stdout


def test_the_code_alone_shows_which_steps_are_named_by_their_number(cli: Cli) -> None:
    (told,) = [line for line in lines(cli, "--code-only") if "NumberedDispatch" in line]

    assert told.startswith("advice: The steps of 'knocks' in NumberedDispatch (")
    assert "test_checking.py:" in told
    assert "Give them name= before" in told


def test_a_workflow_at_a_numbered_step_is_told_of_and_is_no_problem(cli: Cli) -> None:
    workflow_id = at_a_knock("knocks_2")

    (told,) = [line for line in lines(cli) if "at step 'knocks_2'" in line]

    assert told.startswith(f"advice: 1 workflow of NumberedDispatch (such as #{workflow_id}) stands at step 'knocks_2'")
    assert cli("check").exit_code == 0


def test_a_number_beyond_the_end_of_its_list_is_a_problem(cli: Cli) -> None:
    at_a_knock("knocks_3")

    checked = cli("check")

    assert checked.exit_code == 1
    assert "the steps of its list 'knocks' are named by their place, and the list has become shorter" in checked.stdout


def test_a_removed_step_in_flight_must_stay_for_now(cli: Cli, start: Start) -> None:
    # REM-11
    stand_at(start(), "print_label")

    checked = cli("check", "--json")

    assert checked.exit_code == 0
    told = [each for each in json.loads(checked.stdout)["advice"] if each["step_name"] == "print_label"]
    assert [(each["kind"], each["count"]) for each in told] == [("gravestone_in_use", 1)]
    assert "must stay for now" in told[0]["text"]


def test_an_application_without_any_workflow_class_has_a_problem(workers: Any) -> None:
    checked = workers.run("geneva", "check", "--code-only")

    assert checked.wait() == 1
    assert "problem: The application 'tests.harness' has no workflow class loaded" in checked.output
