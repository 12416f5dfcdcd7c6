"""``flask geneva list``, ``show``, ``check`` and ``stats``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from tests.cli.conftest import Cli, change
from tests.harness.models import db

Start = Callable[..., int]


def listed(cli: Cli, *options: object) -> list[int]:
    """The ids of the workflows that are listed."""
    return [each["id"] for each in json.loads(cli("list", "--json", *options).stdout)]


def test_the_list_says_where_each_workflow_stands(cli: Cli, start: Start) -> None:
    parked, failed = start("parked"), start("failed")

    lines = cli("list").stdout.splitlines()

    assert lines[0].split()[:5] == [
        f"#{failed}",
        "ParcelDispatch",
        f"Order:{failed_hero(cli, failed)}",
        "paused",
        "capture",
    ]
    assert lines[0].endswith("TimeoutError: the gateway.")
    assert lines[1].startswith(f"#{parked}")
    assert re.search(r"parked since (a moment|\d+ seconds?)", lines[1])


def failed_hero(cli: Cli, workflow_id: int) -> str:
    return str(json.loads(cli("show", workflow_id, "--json").stdout)["hero_id"])


def test_the_list_can_be_narrowed(cli: Cli, start: Start) -> None:
    scheduled, parked, failed = start(), start("parked"), start("failed")

    assert listed(cli) == [failed, parked, scheduled]
    assert listed(cli, "--state", "paused") == [failed]
    assert listed(cli, "--state", "paused", "--state", "ready") == [failed, parked, scheduled]
    assert listed(cli, "--class", "ParcelDispatch", "--step", "capture") == [failed, parked]
    assert listed(cli, "--hero", f"Order:{failed_hero(cli, parked)}") == [parked]
    assert listed(cli, "--hero", failed_hero(cli, parked)) == [parked]
    assert listed(cli, "--hero", "Customer:1") == []


def test_the_list_can_be_narrowed_by_age(cli: Cli, start: Start) -> None:
    old, young = start(), start()
    change(old, created_at=datetime.fromisoformat("2020-01-01T00:00:00+00:00"))

    assert listed(cli, "--older-than", "3d") == [old]
    assert listed(cli, "--newer-than", "2h") == [young]


def test_the_list_comes_in_pages(cli: Cli, start: Start) -> None:
    first, second, third = start(), start(), start()

    page = cli("list", "--limit", 2).stdout

    assert page.splitlines()[-1] == f"There are more: --before {second}"
    assert listed(cli, "--limit", 2) == [third, second]
    assert listed(cli, "--before", second) == [first]


def test_an_empty_list_says_so(cli: Cli) -> None:
    assert cli("list").stdout == "No workflows.\n"
    assert json.loads(cli("list", "--json").stdout) == []


def test_the_list_in_json_has_stable_keys_and_times_in_utc(cli: Cli, start: Start) -> None:
    start("parked")

    (each,) = json.loads(cli("list", "--json").stdout)

    assert {"id", "type", "hero_type", "hero_id", "state", "step_name", "created_at", "waiting_since"} <= set(each)
    assert datetime.fromisoformat(each["waiting_since"]).utcoffset() == timedelta(0)
    assert (each["state"], each["step_name"], each["step_state"]) == ("ready", "capture", "waiting")


def test_a_workflow_is_shown_with_its_explanation_its_attempts_and_its_signals(cli: Cli, start: Start) -> None:
    # OBS-27 SIG-03
    workflow_id = start("failed")

    shown = cli("show", workflow_id).stdout

    assert f"ParcelDispatch #{workflow_id} of Order:" in shown
    assert "paused: capture failed with TimeoutError: the gateway; resume runs it again." in shown
    assert "completed (success)" in shown
    assert "TimeoutError: the gateway" in shown
    assert "signal 'paid'" in shown
    assert '    "boom"' in shown


def test_a_traceback_is_shown_on_request(cli: Cli, start: Start) -> None:
    workflow_id = start("failed")

    assert "Traceback" not in cli("show", workflow_id).stdout
    assert "    | Traceback (most recent call last):" in cli("show", workflow_id, "--traceback").stdout


def test_a_workflow_in_json_has_its_columns(cli: Cli, start: Start) -> None:
    # OBS-25
    workflow_id = start("failed")

    shown = json.loads(cli("show", f"#{workflow_id}", "--json").stdout)

    assert (shown["id"], shown["state"], shown["next_step_name"]) == (workflow_id, "paused", "capture")
    assert shown["explanation"].startswith("paused: capture failed")
    assert [each["step_name"] for each in shown["step_executions"]] == ["reserve", "capture"]
    assert shown["step_executions"][1]["error_class_name"] == "TimeoutError"
    assert [(each["name"], each["payload"]) for each in shown["signals"]] == [("paid", "boom")]


def test_what_is_stored_cannot_steer_the_terminal(cli: Cli, start: Start) -> None:
    workflow_id = start()
    change(workflow_id, hero_id="x\x1b[2J\r")

    assert r"Order:x\x1b[2J\r" in cli("list").stdout
    assert "\x1b" not in cli("show", workflow_id).stdout


def test_a_workflow_whose_class_is_gone_is_listed_and_shown(cli: Cli, start: Start) -> None:
    # NEW-23 MIS-06
    workflow_id = start()
    change(workflow_id, type="GoneDispatch")

    assert "GoneDispatch" in cli("list", "--class", "GoneDispatch").stdout
    assert "no class named 'GoneDispatch' is declared" in cli("show", workflow_id).stdout


def test_check_is_content_with_code_that_knows_every_step(cli: Cli, start: Start) -> None:
    start("parked")

    checked = cli("check")

    assert checked.exit_code == 0
    assert "advice: Nothing stands at the removed step 'print_label' of ParcelDispatch" in checked.stdout
    assert "workflows.py:" in checked.stdout


def test_check_names_what_a_deploy_has_stranded(cli: Cli, start: Start) -> None:
    # INV-07 MIS-01 B-38
    lost_step, lost_class = start("paused"), start()
    change(lost_step, next_step_name="weigh")
    change(lost_class, type="GoneDispatch")
    db.session.execute(
        db.text(f"UPDATE geneva_step_executions SET step_name = 'weigh' WHERE workflow_id = {lost_step}")
    )
    db.session.commit()

    checked = cli("check")

    assert checked.exit_code == 1
    assert f"1 workflow of GoneDispatch (such as #{lost_class})" in checked.stdout
    assert "stands at step 'weigh', which the class does not define" in checked.stdout


def test_check_in_json(cli: Cli, start: Start) -> None:
    workflow_id = start()
    change(workflow_id, state="finished")

    checked = cli("check", "--json")
    report = json.loads(checked.stdout)

    assert checked.exit_code == 1
    assert [(each["kind"], each["workflow_id"]) for each in report["problems"]] == [
        ("open_step_under_ended_workflow", workflow_id)
    ]
    assert "gravestone_can_go" in {each["kind"] for each in report["advice"]}


def test_the_gauges_count_by_class_and_state(cli: Cli, start: Start) -> None:
    # HSK-29 HSK-31 HSK-32
    start(), start("parked"), start("failed"), start("failed")

    gauges = json.loads(cli("stats", "--json").stdout)["classes"]["ParcelDispatch"]

    assert gauges["workflows"] == {"ready": 2, "performing": 0, "paused": 2, "finished": 0, "canceled": 0}
    assert (gauges["paused_ratio"], gauges["waiting"], gauges["waiting_overdue"]) == (0.5, 1, 0)


def test_the_gauges_are_a_table_for_people(cli: Cli, start: Start) -> None:
    start("failed")

    lines = cli("stats").stdout.splitlines()

    assert lines[0].split()[:6] == ["class", "ready", "performing", "paused", "finished", "canceled"]
    (row,) = [line.split() for line in lines if line.startswith("ParcelDispatch")]
    assert row[1:7] == ["0", "0", "1", "0", "0", "100%"]
    assert lines[-1].startswith("total")


@pytest.mark.parametrize(
    "command", [["list"], ["show", 1], ["check"], ["stats"], ["graph", "ParcelDispatch"], ["doctor"]]
)
def test_every_reading_command_prints_json(cli: Cli, start: Start, command: list[object]) -> None:
    workflow_id = start()

    printed = cli(*(workflow_id if part == 1 else part for part in command), "--json").stdout

    assert json.loads(printed)
