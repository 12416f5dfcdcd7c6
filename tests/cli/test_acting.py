"""``flask geneva pause``, ``resume``, ``resume-at``, ``skip``, ``cancel`` and ``signal``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flask_geneva import Signal, Workflow
from flask_geneva.cli import acting
from tests.cli.conftest import Cli, change
from tests.harness.models import db

Start = Callable[..., int]
PlaceOf = Callable[[int], tuple[str, str | None]]


@pytest.mark.parametrize(
    ("command", "place", "then"),
    [
        (["pause"], "scheduled", ("paused", "reserve")),  # OPS-01 OPS-20
        (["pause"], "parked", ("paused", "capture")),  # OPS-22
        (["resume"], "paused", ("ready", "reserve")),
        (["resume"], "failed", ("ready", "capture")),  # OPS-29
        (["skip"], "scheduled", ("ready", "capture")),  # OPS-50
        (["skip"], "parked", ("ready", "ask_review")),  # OPS-52
        (["skip"], "failed", ("ready", "ask_review")),  # OPS-54
        (["cancel"], "scheduled", ("canceled", "reserve")),  # OPS-61
        (["cancel"], "parked", ("canceled", "capture")),  # OPS-64
        (["cancel"], "failed", ("canceled", "capture")),  # OPS-63
    ],
)
def test_a_verb_moves_a_workflow_and_commits(
    cli: Cli, start: Start, place_of: PlaceOf, command: list[str], place: str, then: tuple[str, str | None]
) -> None:
    workflow_id = start(place)

    done = cli(*command, workflow_id)

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"ParcelDispatch #{workflow_id}: ")
    assert place_of(workflow_id) == then


def test_a_paused_workflow_goes_on_at_a_named_step(cli: Cli, start: Start, place_of: PlaceOf) -> None:
    # OPS-41 OPS-46
    workflow_id = start("failed")

    done = cli("resume-at", workflow_id, "reserve")

    assert done.exit_code == 0
    assert place_of(workflow_id) == ("ready", "reserve")


@pytest.mark.parametrize(("step_name", "advice"), [("weigh", "not defined"), ("print_label", "removed_step")])
def test_a_step_that_cannot_be_resumed_at_is_refused(
    cli: Cli, start: Start, place_of: PlaceOf, step_name: str, advice: str
) -> None:
    # OPS-43 OPS-44
    workflow_id = start("failed")

    done = cli("resume-at", workflow_id, step_name)

    assert done.exit_code == 1
    assert advice in done.stderr
    assert "reserve, capture, ask_review" in done.stderr
    assert place_of(workflow_id) == ("paused", "capture")


@pytest.mark.parametrize("command", [["pause"], ["resume"], ["resume-at"], ["skip"], ["cancel"]])
def test_a_verb_that_does_not_fit_the_state_is_one_line(cli: Cli, start: Start, command: list[str]) -> None:
    # OPS-03 OPS-04 OPS-08 OPS-09 OPS-12 OPS-13 OPS-15 OPS-16 OPS-65
    workflow_id = start()
    cli("cancel", workflow_id)

    done = cli(*command, workflow_id, *(["reserve"] if command == ["resume-at"] else []))

    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: Cannot {command[0].replace('-', '_')} ParcelDispatch #{workflow_id}: ")
    assert "canceled" in done.stderr
    assert done.stderr.count("\n") == 1


def test_one_id_that_fails_is_named_and_stops_none_of_the_others(cli: Cli, start: Start, place_of: PlaceOf) -> None:
    first, second, third = start("failed"), start(), start("failed")

    done = cli("resume", first, second, 999_999, third)

    assert done.exit_code == 1
    assert done.stderr.splitlines()[0].startswith(f"Error: Cannot resume ParcelDispatch #{second}: ")
    assert done.stderr.splitlines()[1] == "Error: There is no workflow #999999."
    assert place_of(first) == place_of(third) == ("ready", "capture")


def test_an_id_that_is_given_twice_is_acted_on_once(cli: Cli, start: Start) -> None:
    workflow_id = start()

    assert cli("pause", workflow_id, f"#{workflow_id}").exit_code == 0


def test_a_selection_is_counted_and_confirmed(cli: Cli, start: Start, place_of: PlaceOf) -> None:
    ids = [start("failed"), start("failed")]
    other = start("paused")

    done = cli("resume", "--class", "ParcelDispatch", "--step", "capture", input="y\n")

    assert done.exit_code == 0
    assert "2 workflows to resume: state paused, class ParcelDispatch, step capture." in done.stdout
    assert "Done with 2 of 2 workflows." in done.stdout
    assert [place_of(each) for each in ids] == [("ready", "capture")] * 2
    assert place_of(other) == ("paused", "reserve")


@pytest.mark.parametrize("answer", ["n\n", None])
def test_a_selection_that_is_not_confirmed_is_left_alone(
    cli: Cli, start: Start, place_of: PlaceOf, answer: str | None
) -> None:
    workflow_id = start("failed")

    done = cli("cancel", "--state", "paused", input=answer)

    assert done.exit_code == 1
    assert "1 workflow to cancel: state paused." in done.stdout
    assert place_of(workflow_id) == ("paused", "capture")


def test_a_selection_is_not_confirmed_when_yes_is_said(cli: Cli, start: Start, place_of: PlaceOf) -> None:
    ids = [start("failed"), start("failed")]

    done = cli("resume-at", "--class", "ParcelDispatch", "--yes", "ask_review")

    assert done.exit_code == 0
    assert [place_of(each) for each in ids] == [("ready", "ask_review")] * 2


def test_an_empty_selection_is_no_error(cli: Cli, start: Start) -> None:
    start()

    done = cli("resume", "--class", "ParcelDispatch", "--yes")

    assert (done.exit_code, done.stdout) == (0, "No workflow is in this selection.\n")


def test_without_a_state_a_selection_has_those_that_the_verb_fits(cli: Cli, start: Start, place_of: PlaceOf) -> None:
    ready, paused, ended = start(), start("paused"), start()
    cli("cancel", ended)

    done = cli("skip", "--class", "ParcelDispatch", "--yes")

    assert "2 workflows to skip: state ready or paused" in done.stdout
    assert place_of(ready) == place_of(paused) == ("ready", "capture")


def test_one_that_fails_in_a_selection_is_named_and_stops_none_of_the_others(
    cli: Cli, start: Start, place_of: PlaceOf
) -> None:
    first, stranded, last = start("failed"), start("failed"), start("failed")
    change(stranded, next_step_name="weigh")

    done = cli("resume", "--class", "ParcelDispatch", "--state", "paused", "--yes")

    assert done.exit_code == 1
    assert f"Cannot resume ParcelDispatch #{stranded}: step 'weigh' is not defined" in done.stderr
    assert "Done with 2 of 3 workflows." in done.stdout
    assert place_of(first) == place_of(last) == ("ready", "capture")


def test_one_that_has_moved_on_since_it_was_selected_is_left_alone(
    cli: Cli, start: Start, place_of: PlaceOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow_id = start()
    confirm = acting.click.confirm

    def meanwhile(*arguments: Any, **options: Any) -> bool:
        cli("skip", workflow_id)
        return bool(confirm(*arguments, **options))

    monkeypatch.setattr(acting.click, "confirm", meanwhile)
    done = cli("skip", "--step", "reserve", input="y\n")

    assert done.exit_code == 1
    assert "it has moved on since it was selected, and is ready at step 'capture'" in done.stderr
    assert place_of(workflow_id) == ("ready", "capture")


@pytest.mark.parametrize("arguments", [["skip"], ["skip", 1, "--class", "ParcelDispatch"], ["cancel", "--yes"]])
def test_ids_or_a_selection_must_be_given_and_not_both(cli: Cli, arguments: list[object]) -> None:
    done = cli(*arguments)

    assert done.exit_code == 2
    assert "either ids, or a selection" in done.stderr


def test_a_workflow_whose_class_is_gone_can_be_canceled(cli: Cli, start: Start) -> None:
    # NEW-23
    workflow_id = start()
    change(workflow_id, type="GoneDispatch")

    done = cli("cancel", workflow_id)

    assert done.exit_code == 0
    assert done.stdout.startswith(f"GoneDispatch #{workflow_id}: canceled")


def test_a_signal_is_delivered_and_wakes_the_step(cli: Cli, start: Start) -> None:
    # SIG-47
    workflow_id = start("parked")

    done = cli("signal", workflow_id, "paid", "--payload", '{"cents": 5}', "--key", "by-hand")

    (signal,) = signals_of(workflow_id)
    assert done.exit_code == 0
    assert done.stdout == f"Signal #{signal.id} 'paid' of ParcelDispatch #{workflow_id}: claimed.\n"
    assert (signal.payload, signal.idempotency_key) == ({"cents": 5}, "by-hand")


def test_a_signal_without_a_payload_carries_an_empty_object(cli: Cli, start: Start) -> None:
    # CFG-17
    workflow_id = start()

    cli("signal", workflow_id, "paid")

    assert [signal.payload for signal in signals_of(workflow_id)] == [{}]


def test_a_signal_that_comes_twice_says_so(cli: Cli, start: Start) -> None:
    # SIG-15
    workflow_id = start()
    cli("signal", workflow_id, "paid", "--key", "k")

    again = cli("signal", workflow_id, "paid", "--key", "k")

    assert again.exit_code == 0
    assert "it was delivered before and this changed nothing" in again.stdout
    assert len(signals_of(workflow_id)) == 1


def test_a_signal_that_nobody_waits_for_is_delivered_with_a_remark(cli: Cli, start: Start) -> None:
    workflow_id = start()

    done = cli("signal", workflow_id, "payd")

    assert "No step of ParcelDispatch waits for a signal of this name." in done.stdout
    assert [signal.name for signal in signals_of(workflow_id)] == ["payd"]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["paid", "--payload", "{"], 2, "The payload is no JSON"),
        ([""], 1, "the name of a signal must have 1 to 255 characters"),
        (["paid", "--key", "k" * 256], 1, "an idempotency key must have 1 to 255 characters"),
    ],
)
def test_a_signal_that_cannot_be_read_is_refused(
    cli: Cli, start: Start, arguments: list[str], status: int, text: str
) -> None:
    workflow_id = start()

    done = cli("signal", workflow_id, *arguments)

    assert done.exit_code == status
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert signals_of(workflow_id) == []


def test_a_signal_to_a_workflow_that_has_ended_is_refused(cli: Cli, start: Start) -> None:
    # SIG-29
    workflow_id = start()
    cli("cancel", workflow_id)

    done = cli("signal", workflow_id, "paid")

    assert done.exit_code == 1
    assert f"Cannot deliver signal 'paid' to ParcelDispatch #{workflow_id}: the workflow is canceled." in done.stderr


def signals_of(workflow_id: int) -> list[Signal]:
    db.session.rollback()
    workflow = db.session.get(Workflow, workflow_id, populate_existing=True)
    assert workflow is not None
    return list(workflow.signals)
