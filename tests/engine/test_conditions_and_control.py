"""Conditions before a step, flow control within it, hooks around it, and the hero it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, text
from sqlalchemy.exc import OperationalError

from flask_geneva import InvalidStateError, Workflow, step
from flask_geneva.records import heroes
from flask_geneva.testing import perform_next_step, speedrun
from tests.engine.flows import (
    Boom,
    HandledFlow,
    Other,
    PlainFlow,
    boom,
    policy_flow,
    reload,
    run_job,
    start,
    states,
)
from tests.harness.models import Order, db, write_down

Plan = dict[str, Callable[..., Any]]
Ledger = Callable[[Any], list[str]]


class GoneHeroFlow(Workflow[Any]):
    """Runs on when its hero is gone."""

    may_proceed_without_hero = True

    @step
    def only(self) -> None:
        write_down(self, f"hero is {self.hero}")


def test_cancel_if_ends_the_workflow_before_the_step(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # PRE-01, PRE-02, PRE-05
    workflow = start()
    plan["cancel_if"] = lambda running: True
    plan["skip_if"] = boom

    perform_next_step(workflow)

    assert states(workflow) == [("one", "canceled", "canceled")]
    assert (workflow.state, ledger(workflow)) == ("canceled", [])
    assert workflow.transitioned_at is not None


def test_skip_if_passes_over_the_step(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # PRE-06, PRE-09, PRE-10
    workflow = start(state="skip")
    plan["skip_if"] = lambda running: running.hero.state == "skip"

    perform_next_step(workflow)

    assert states(workflow) == [("one", "skipped", "skipped"), ("two", "scheduled", None)]
    assert ledger(workflow) == []


def test_conditions_are_asked_before_every_attempt(app: Flask, plan: Plan) -> None:
    # PRE-04
    workflow = start()
    asked: list[str] = []
    plan["cancel_if"] = lambda running: asked.append("asked")
    plan["one"] = lambda running: running.reattempt()

    perform_next_step(workflow)
    perform_next_step(workflow)

    assert len(asked) == 2


def test_a_condition_may_look_but_not_write(app: Flask, plan: Plan) -> None:
    workflow = start()

    def write(running: Any) -> bool:
        running.hero.state = "written by a condition"
        db.session.flush()
        return False

    plan["cancel_if"] = write
    perform_next_step(workflow)

    assert workflow.hero.state == "placed"
    assert states(workflow)[0] == ("one", "completed", "success")


@pytest.mark.parametrize("condition", ["cancel_if", "skip_if"])
@pytest.mark.parametrize(
    ("action", "first", "workflow_state", "follows"),
    [
        ("pause", ("zero", "failed", "failed"), "paused", []),
        ("cancel", ("zero", "failed", "canceled"), "canceled", []),
        ("skip", ("zero", "skipped", "skipped"), "ready", ["one"]),
        ("reattempt", ("zero", "completed", "reattempted"), "ready", ["zero"]),
    ],
)
def test_a_condition_that_raises_ends_the_attempt_as_an_error_in_the_step_would(
    app: Flask,
    plan: Plan,
    condition: str,
    action: str,
    first: tuple[str, str, str],
    workflow_state: str,
    follows: list[str],
) -> None:
    # PRE-12 to PRE-20, EXC-43 to EXC-47
    workflow = start(policy_flow(action))
    plan[condition] = boom

    run = run_job(workflow.step_executions[0].id)

    workflow = reload(workflow)
    assert states(workflow)[0] == first
    assert [name for name, _, _ in states(workflow)[1:]] == follows
    assert workflow.state == workflow_state
    assert isinstance(run.error_to_report, Boom)
    assert workflow.execution_history[0].details["exception"]["class"] == "Boom"


def test_errors_of_conditions_count_like_those_of_the_step(app: Flask, plan: Plan) -> None:
    # PRE-21, OBS-22
    workflow = start(policy_flow("reattempt"))
    plan["skip_if"] = boom

    for _ in range(3):
        perform_next_step(workflow, raise_errors=False)

    assert [outcome for _, _, outcome in states(workflow)] == ["reattempted", "reattempted", "failed"]
    assert workflow.execution_history[0].details["reattempt_reason"] == "precondition"
    assert workflow.state == "paused"


def test_a_verb_ends_the_step_at_once_and_except_exception_does_not_catch_it(
    app: Flask, plan: Plan, ledger: Ledger
) -> None:
    # FLW-01, FLW-02, FLW-03
    workflow = start(PlainFlow)
    cleaned: list[str] = []

    def deep(running: Any) -> None:
        try:
            running.skip()
        finally:
            cleaned.append("up")

    def step_code(running: Any) -> None:
        try:
            deep(running)
        except Exception:
            write_down(running, "caught")
        write_down(running, "after")

    plan["one"] = step_code
    perform_next_step(workflow)

    assert (cleaned, ledger(workflow)) == (["up"], ["one"])
    assert states(workflow)[0] == ("one", "skipped", "skipped")


def test_resume_after_a_pause_in_a_step_runs_it_again(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # FLW-05, FLW-06
    workflow = start(PlainFlow)
    plan["one"] = lambda running: running.pause()
    perform_next_step(workflow)
    assert workflow.next_step_name == "one"

    plan.clear()
    workflow.resume()
    speedrun(workflow)

    assert ledger(workflow) == ["one", "one", "two"]


def test_a_reattempt_comes_after_its_wait_and_as_often_as_it_likes(app: Flask, plan: Plan) -> None:
    # FLW-08 to FLW-11, FLW-16, EXC-38, OBS-22
    workflow = start(policy_flow("reattempt"))
    plan["zero"] = lambda running: running.reattempt(wait=90, rewind=True)
    for _ in range(5):
        perform_next_step(workflow)
    retry = workflow.execution_history[-1]
    assert retry.scheduled_for - workflow.execution_history[-2].finished_at == timedelta(seconds=90)
    assert workflow.execution_history[0].details["reattempt_reason"] == "flow_control"

    plan["zero"] = boom
    for _ in range(3):
        perform_next_step(workflow, raise_errors=False)

    assert [outcome for _, _, outcome in states(workflow)] == ["reattempted"] * 7 + ["failed"]


def test_skip_on_the_last_step_finishes(app: Flask, plan: Plan) -> None:
    # FLW-13, PRE-07
    workflow = start(policy_flow("pause"))
    workflow.pause()
    workflow.resume_at("three")
    perform_next_step(workflow)

    assert (workflow.state, workflow.next_step_name) == ("finished", None)


def test_verbs_of_a_step_are_refused_outside(app: Flask) -> None:
    # FLW-18, FLW-19
    workflow = start(PlainFlow)

    for verb in (workflow.reattempt, workflow.finish, workflow.suspend):
        with pytest.raises(InvalidStateError, match=verb.__name__):
            verb()


def test_suspend_in_a_plain_step_is_an_error_of_the_step(app: Flask, plan: Plan) -> None:
    # FLW-17
    workflow = start(PlainFlow)
    plan["one"] = lambda running: running.suspend()

    with pytest.raises(InvalidStateError, match="resumable_step"):
        perform_next_step(workflow)

    assert workflow.state == "paused"


def test_verbs_on_another_workflow_act_on_that_one(app: Flask, plan: Plan, ledger: Ledger) -> None:
    # FLW-20, B-05
    other = start(PlainFlow)
    other_id = other.id
    workflow = start(PlainFlow)
    plan["one"] = lambda running: db.session.get_one(Workflow, other_id).cancel()

    perform_next_step(workflow)

    assert (other.state, workflow.state) == ("canceled", "ready")
    assert ledger(workflow) == ["one"]


def test_an_error_that_the_step_handles_never_meets_a_policy(app: Flask, plan: Plan) -> None:
    # FLW-22
    workflow = start(policy_flow("cancel"))

    def handle(running: Any) -> None:
        with pytest.raises(Boom):
            boom()

    plan["zero"] = handle
    perform_next_step(workflow)

    assert states(workflow)[0] == ("zero", "completed", "success")


@pytest.mark.parametrize(
    ("verb", "first", "workflow_state"),
    [
        ("reattempt", ("one", "completed", "reattempted"), "ready"),
        ("cancel", ("one", "failed", "canceled"), "canceled"),
        ("skip", ("one", "skipped", "skipped"), "ready"),
        ("pause", ("one", "failed", "failed"), "paused"),
        ("finish", ("one", "completed", "success"), "finished"),
        (None, ("one", "failed", "failed"), "paused"),
    ],
)
def test_a_handler_decides_by_a_verb(
    app: Flask, plan: Plan, ledger: Ledger, verb: str | None, first: tuple[str, str, str], workflow_state: str
) -> None:
    # EXC-19 to EXC-24, FLW-21
    workflow = start(HandledFlow)
    plan["one"] = boom

    def handler(running: Any, error: Exception) -> None:
        write_down(running, f"handled {error}")
        if verb is not None:
            getattr(running, verb)()

    plan["handler"] = handler
    perform_next_step(workflow, raise_errors=False)

    assert states(workflow)[0] == first
    assert workflow.state == workflow_state
    assert ledger(workflow) == (["handled bang"] if verb else [])


def test_a_handler_that_raises_leaves_the_steps_error_with_its_own_below(app: Flask, plan: Plan) -> None:
    # B-29
    workflow = start(HandledFlow)
    plan["one"] = boom

    def handler(running: Any, error: Exception) -> None:
        raise Other("in the handler")

    plan["handler"] = handler
    perform_next_step(workflow, raise_errors=False)

    failed = workflow.execution_history[0]
    assert (failed.state, failed.error_class_name, workflow.state) == ("failed", "Boom", "paused")
    assert "in the handler" in (failed.error_backtrace or "")


def test_success_begins_the_count_of_errors_anew(app: Flask, plan: Plan) -> None:
    # EXC-36, EXC-37, EXC-42
    workflow = start(policy_flow("reattempt"))
    plan["zero"] = boom
    for _ in range(3):
        perform_next_step(workflow, raise_errors=False)
    assert workflow.state == "paused"

    workflow.resume()
    for _ in range(2):
        perform_next_step(workflow, raise_errors=False)

    # B-20: the operator's verb grants the whole limit again.
    assert workflow.state == "ready"
    perform_next_step(workflow, raise_errors=False)
    assert workflow.state == "paused"


def test_hooks_stand_around_the_step(app: Flask, plan: Plan) -> None:
    # OBS-15, OBS-16, OBS-17, OBS-18
    seen: list[str] = []
    for name in ("before", "around", "one", "around, afterwards", "after"):
        plan[name] = lambda running, *_, name=name: seen.append(name)
    workflow = start()

    perform_next_step(workflow)
    assert seen == ["before", "around", "one", "around, afterwards", "after"]

    seen.clear()
    failing = start()
    plan["one"] = boom
    perform_next_step(failing, raise_errors=False)
    assert seen == ["before", "around", "after"]

    seen.clear()
    plan["skip_if"] = lambda running: True
    perform_next_step(start())
    assert seen == []


@pytest.mark.parametrize("hook", ["before", "around", "around, afterwards", "after"])
def test_a_hook_that_raises_is_an_error_of_the_step(app: Flask, plan: Plan, ledger: Ledger, hook: str) -> None:
    # OBS-19, OBS-20, B-28
    workflow = start()
    plan[hook] = boom

    perform_next_step(workflow, raise_errors=False)

    assert (states(workflow)[0], workflow.state) == (("one", "failed", "failed"), "paused")
    assert ledger(workflow) == []


@pytest.mark.parametrize("hook", ["before", "around", "after"])
def test_flow_control_in_a_hook_works_as_in_the_step(app: Flask, plan: Plan, hook: str) -> None:
    workflow = start()
    plan[hook] = lambda running, *_: running.skip()

    perform_next_step(workflow)

    assert states(workflow)[0] == ("one", "skipped", "skipped")


def test_a_hero_that_is_gone_cancels_the_workflow(app: Flask, ledger: Ledger) -> None:
    # HER-01, HER-05
    workflow = start()
    db.session.execute(delete(Order))
    db.session.commit()

    perform_next_step(workflow)

    assert states(workflow) == [("one", "canceled", "canceled")]
    assert (workflow.state, ledger(workflow)) == ("canceled", [])


def test_a_workflow_that_was_never_given_a_hero_is_canceled_where_its_class_needs_one(
    app: Flask, ledger: Ledger
) -> None:
    # NEW-13
    workflow = start(PlainFlow)
    db.session.execute(text("UPDATE geneva_workflows SET hero_type = NULL, hero_id = NULL"))
    db.session.commit()

    perform_next_step(workflow)

    assert states(workflow) == [("one", "canceled", "canceled")]
    assert (workflow.state, ledger(workflow)) == ("canceled", [])


def test_a_connection_that_is_lost_while_the_hero_is_looked_for_is_no_error_of_the_step(
    app: Flask, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = start(PlainFlow)
    answers = iter([OperationalError("SELECT 1", {}, Exception("gone"), connection_invalidated=True)])
    exists = heroes.exists

    def unreliable(*arguments: Any) -> bool:
        for error in answers:
            raise error
        return exists(*arguments)

    monkeypatch.setattr(heroes, "exists", unreliable)
    speedrun(workflow)

    assert states(workflow) == [("one", "completed", "success"), ("two", "completed", "success")]
    assert ledger(workflow) == ["one", "two"]


def test_a_class_may_proceed_without_its_hero(app: Flask, ledger: Ledger) -> None:
    # HER-02, HER-08, NEW-13
    workflow = start(GoneHeroFlow)
    db.session.execute(delete(Order))
    db.session.commit()

    speedrun(workflow)

    assert ledger(workflow) == ["hero is None"]
    assert GoneHeroFlow.definition.may_proceed_without_hero
    assert not PlainFlow.definition.may_proceed_without_hero


def test_a_step_that_touches_a_missing_hero_meets_its_policy(app: Flask, plan: Plan) -> None:
    # HER-03
    workflow = start(PlainFlow)

    def lose(running: Any) -> None:
        db.session.execute(delete(Order))
        db.session.expire_all()
        raise AttributeError(running.hero)

    plan["one"] = lose
    perform_next_step(workflow, raise_errors=False)

    assert workflow.execution_history[0].error_class_name == "AttributeError"


def test_a_hero_of_an_unknown_class_is_an_error_of_the_step(app: Flask) -> None:
    # HER-04, EXE-20, EXC-43
    workflow = start()
    db.session.execute(text("UPDATE geneva_workflows SET hero_type = 'NoSuchModel'"))
    db.session.commit()

    perform_next_step(workflow, raise_errors=False)

    failed = workflow.execution_history[0]
    assert (failed.state, failed.error_class_name) == ("failed", "ReferencedRecordMissing")
    assert "NoSuchModel" in (failed.error_message or "")
    assert workflow.state == "paused"


def test_the_last_step_may_delete_the_hero(app: Flask, plan: Plan) -> None:
    # HER-07
    workflow = start(PlainFlow)
    perform_next_step(workflow)
    workflow.pause()
    workflow.resume_at("one")
    plan["one"] = lambda running: (db.session.delete(running.hero), running.finish())

    perform_next_step(workflow)

    assert workflow.state == "finished"
    assert workflow.hero is None


def test_log_lines_name_workflow_hero_execution_and_step(
    app: Flask, plan: Plan, caplog: pytest.LogCaptureFixture
) -> None:
    # OBS-01 to OBS-05
    workflow = start(PlainFlow)
    plan["one"] = lambda running: running.logger.warning("look at %s", "this")

    perform_next_step(workflow)

    (record,) = [each for each in caplog.records if "look at this" in each.getMessage()]
    execution_id = workflow.execution_history[0].id
    assert f"PlainFlow #{workflow.id} Order {workflow.hero_id}, one #{execution_id}" in record.getMessage()
    facts = vars(record)
    assert (facts["workflow_id"], facts["execution_id"], facts["step_name"]) == (workflow.id, execution_id, "one")


def test_details_of_an_execution_are_kept(app: Flask, plan: Plan) -> None:
    # OBS-21, OBS-23, OBS-24, EXC-07
    workflow = start(PlainFlow)
    perform_next_step(workflow)
    execution = workflow.execution_history[0]

    execution.details["seen by"] = {"name": "Ada"}
    db.session.commit()

    assert reload(workflow).execution_history[0].details["seen by"] == {"name": "Ada"}
    assert execution.details.get("missing") is None


def test_a_workflow_has_started_when_its_first_step_did(app: Flask) -> None:
    workflow = start(PlainFlow)

    speedrun(workflow)

    assert workflow.started_at == workflow.execution_history[0].started_at


class OtherQueueFlow(Workflow[Order]):
    """Its second step is for other workers."""

    @step
    def one(self) -> None:
        write_down(self)

    @step(job_options={"queue": "others"})
    def two(self) -> None:
        write_down(self)


def test_a_step_of_another_queue_is_left_to_the_workers_of_that(app: Flask, ledger: Ledger) -> None:
    workflow = start(OtherQueueFlow)

    run_job(workflow.execution_history[0].id, runs_ahead=True)

    assert ledger(workflow) == ["one"]
    assert states(reload(workflow))[-1] == ("two", "scheduled", None)
