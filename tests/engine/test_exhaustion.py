"""How many retries an error is granted, what begins the count anew, and what comes when they are used up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, text, update

from flask_geneva import ExceptionPolicy, Workflow, step
from flask_geneva.records.tables import workflows
from flask_geneva.testing import speedrun
from tests.engine.elsewhere import Ledger, Plan, press
from tests.engine.failing import fail_again, raising
from tests.engine.flows import Boom, Other, boom, planned, reload, run_job, start, states
from tests.harness.models import Order, db, write_down


class ThreeTriesFlow(Workflow[Order]):
    """Grants three retries to each of two steps."""

    @step(on_exception="reattempt", max_reattempts=3, skip_if=lambda workflow: planned("skip_if", workflow))
    def one(self) -> None:
        planned("one", self)

    @step(on_exception="reattempt", max_reattempts=3)
    def two(self) -> None:
        planned("one", self)


class EndlessFlow(Workflow[Order]):
    """Grants retries for ever."""

    @step(on_exception="reattempt", max_reattempts=None)
    def one(self) -> None:
        boom()


class UncappedFlow(Workflow[Order]):
    """Says nothing of a limit, in one of four places."""

    @step(on_exception="reattempt")
    def in_a_step(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("reattempt"))
    def in_a_policy(self) -> None:
        boom()

    @step(on_exception=[ExceptionPolicy("reattempt"), ExceptionPolicy("skip", matching=Other)])
    def in_a_list(self) -> None:
        boom()

    @step
    def in_the_class(self) -> None:
        boom()

    exception_policies = [ExceptionPolicy("reattempt")]


class TerminalFlow(Workflow[Order]):
    """Ends otherwise than in a pause."""

    @step(on_exception="reattempt", max_reattempts=2, terminal_action="cancel")
    def canceled(self) -> None:
        boom()

    @step(on_exception=ExceptionPolicy("reattempt", max_reattempts=2, terminal_action="skip"))
    def skipped(self) -> None:
        boom()

    @step
    def after(self) -> None:
        write_down(self)


class CommonCapFlow(Workflow[Order]):
    """A list whose members have limits of their own, in a class with a lower one."""

    exception_policies = [ExceptionPolicy("reattempt", max_reattempts=1)]

    @step(
        on_exception=[
            ExceptionPolicy("reattempt", matching=Boom, max_reattempts=10, terminal_action="cancel"),
            ExceptionPolicy("reattempt", matching=Other, max_reattempts=3),
        ]
    )
    def one(self) -> None:
        planned("one", self)


@pytest.mark.parametrize("place", ["one", "skip_if"])
def test_so_many_retries_are_granted_and_the_next_failure_is_final(app: Flask, plan: Plan, place: str) -> None:
    # EXC-34, EXC-46, B-16
    plan[place] = boom
    workflow = fail_again(start(ThreeTriesFlow), 3)
    assert (workflow.state, len(workflow.execution_history)) == ("ready", 4)

    fail_again(workflow, 1)

    assert (workflow.state, len(workflow.execution_history)) == ("paused", 4)
    assert states(workflow) == [("one", "completed", "reattempted")] * 3 + [("one", "failed", "failed")]
    assert workflow.execution_history[-1].error_message == "bang"


def test_errors_before_and_in_the_body_are_counted_together(app: Flask, plan: Plan) -> None:
    plan["skip_if"] = raising(Boom(), None, Boom(), None)
    plan["one"] = raising(Boom(), Boom())

    workflow = fail_again(start(ThreeTriesFlow), 4)

    assert (workflow.state, len(workflow.execution_history)) == ("paused", 4)


@pytest.mark.databases("sqlite")
def test_without_a_limit_there_is_none(app: Flask) -> None:
    # EXC-35
    workflow = fail_again(start(EndlessFlow), 120)

    assert (workflow.state, len(workflow.execution_history)) == ("ready", 121)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("place", ["in_a_step", "in_a_policy", "in_a_list", "in_the_class"])
def test_where_none_is_named_the_limit_is_a_hundred(app: Flask, place: str) -> None:
    # EXC-33, B-17
    workflow = start(UncappedFlow)
    workflow.pause()
    workflow.resume_at(place)

    speedrun(workflow, max_steps=110, raise_errors=False)

    assert (workflow.state, len(workflow.execution_history)) == ("paused", 102)


def test_a_success_begins_the_count_anew(app: Flask, plan: Plan) -> None:
    # EXC-36, EXC-37, EXC-42
    plan["one"] = raising(Boom(), Boom(), None, Boom(), Boom(), Boom())
    workflow = fail_again(start(ThreeTriesFlow), 6)

    assert (workflow.state, workflow.next_step_name) == ("ready", "two")
    assert [each.step_name for each in workflow.execution_history] == ["one"] * 3 + ["two"] * 4


def test_flow_control_does_not_count_and_does_not_begin_anew(app: Flask, plan: Plan) -> None:
    # EXC-38
    again = Reattempt()
    plan["one"] = raising_or_calling(again, again, again, again, Boom(), again, Boom(), again, Boom(), again, Boom())
    workflow = fail_again(start(ThreeTriesFlow), 10)
    assert workflow.state == "ready"

    fail_again(workflow, 1)

    assert (workflow.state, len(workflow.execution_history)) == ("paused", 11)


class Reattempt(Exception):
    """Asks for flow control instead of an error."""


def raising_or_calling(*errors: Exception) -> Callable[[Any], None]:
    to_come = iter(errors)

    def act(workflow: Any) -> None:
        error = next(to_come)
        if isinstance(error, Reattempt):
            workflow.reattempt()
        raise error

    return act


@pytest.mark.parametrize("verb", ["resume", "resume_at"])
def test_an_operator_grants_all_retries_again(app: Flask, plan: Plan, verb: str) -> None:
    # EXC-37, B-20
    plan["one"] = boom
    workflow = fail_again(start(ThreeTriesFlow), 4)
    assert workflow.state == "paused"

    getattr(workflow, verb)(*(["one"] if verb == "resume_at" else []))
    fail_again(workflow, 3)
    assert workflow.state == "ready"
    fail_again(workflow, 1)

    assert (workflow.state, len(workflow.execution_history)) == ("paused", 8)


def test_a_pause_between_two_retries_grants_them_all_again(app: Flask, plan: Plan) -> None:
    # B-20
    plan["one"] = boom
    workflow = fail_again(start(ThreeTriesFlow), 3)
    workflow.pause()
    workflow.resume()

    fail_again(workflow, 3)

    assert (workflow.state, len(workflow.execution_history)) == ("ready", 7)


def test_a_pause_that_was_asked_for_during_a_retry_grants_them_all_again(app: Flask, plan: Plan) -> None:
    plan["one"] = boom
    workflow = fail_again(start(ThreeTriesFlow), 2)

    def press_and_fail(running: Any) -> None:
        press(running.id, "pause")
        boom()

    plan["one"] = press_and_fail
    run_job(workflow.execution_history[-1].id)
    plan["one"] = boom
    reload(workflow).resume()
    fail_again(workflow, 3)

    assert (workflow.state, len(workflow.execution_history)) == ("ready", 7)


def test_going_back_to_a_step_grants_all_retries_again(app: Flask, plan: Plan) -> None:
    # EXC-42
    plan["one"] = raising(Boom(), Boom(), None, *[Boom()] * 6)
    workflow = fail_again(start(ThreeTriesFlow), 5)
    workflow.pause()
    workflow.resume_at("one")

    fail_again(workflow, 3)

    assert workflow.state == "ready"


@pytest.mark.databases("postgresql", "mariadb")
def test_a_commit_that_the_database_refuses_for_now_is_run_again_and_does_not_count(app: Flask, plan: Plan) -> None:
    plan["one"] = boom
    workflow = fail_again(start(ThreeTriesFlow), 2)
    hero_id, impatience = workflow.hero.id, _IMPATIENCE[db.engine.dialect.name]

    def change_what_somebody_else_has_locked(running: Any) -> None:
        db.session.execute(text(impatience))
        running.hero.amount += 1

    plan["one"] = change_what_somebody_else_has_locked
    db.session.rollback()
    with db.engine.begin() as somebody:
        somebody.execute(select(Order.id).where(Order.id == hero_id).with_for_update())
        run_job(workflow.execution_history[-1].id)

    refused, again = reload(workflow).execution_history[-2:]
    assert (refused.outcome, refused.details["reattempt_reason"]) == ("reattempted", "transient_db_error")
    assert (again.state, again.error_reattempts) == ("scheduled", 2)


_IMPATIENCE = {"postgresql": "SET LOCAL lock_timeout = '100ms'", "mysql": "SET innodb_lock_wait_timeout = 1"}


@pytest.mark.parametrize(
    ("step_name", "state", "outcome", "workflow_state"),
    [
        ("canceled", "failed", "canceled", "canceled"),  # EXC-40
        ("skipped", "skipped", "skipped", "finished"),  # EXC-41
    ],
)
def test_the_terminal_action_ends_it(
    app: Flask, ledger: Ledger, step_name: str, state: str, outcome: str, workflow_state: str
) -> None:
    # EXC-31, EXC-40, EXC-41
    workflow = start(TerminalFlow)
    workflow.pause()
    workflow.resume_at(step_name)

    speedrun(workflow, raise_errors=False)

    attempts = [each for each in workflow.execution_history if each.step_name == step_name][-3:]
    assert [each.outcome for each in attempts] == ["reattempted", "reattempted", outcome]
    assert attempts[-1].state == state
    assert attempts[-1].details["exception"]["class"] == "Boom"
    assert workflow.state == workflow_state
    assert ledger(workflow) == (["after"] if workflow_state == "finished" else [])


def test_the_smallest_limit_of_a_list_counts_for_all_and_the_classs_does_not(app: Flask, plan: Plan) -> None:
    # EXC-30, EXC-31, EXC-32, B-19
    plan["one"] = boom
    workflow = fail_again(start(CommonCapFlow), 3)
    assert workflow.state == "ready"

    fail_again(workflow, 1)

    assert (workflow.state, states(workflow)[-1]) == ("canceled", ("one", "failed", "canceled"))


def test_errors_of_several_members_are_counted_together(app: Flask, plan: Plan) -> None:
    # EXC-30
    plan["one"] = raising(Boom(), Other(), Boom(), Other())

    workflow = fail_again(start(CommonCapFlow), 4)

    assert (workflow.state, states(workflow)[-1]) == ("paused", ("one", "failed", "failed"))


def test_where_the_list_does_not_match_the_classs_limit_counts_the_same_errors(app: Flask, plan: Plan) -> None:
    plan["one"] = raising(Boom(), ValueError())

    workflow = fail_again(start(CommonCapFlow), 2)

    assert (workflow.state, len(workflow.execution_history)) == ("paused", 2)


def test_two_workflows_count_apart(app: Flask, plan: Plan) -> None:
    # EXC-42
    plan["one"] = boom
    first, second = start(ThreeTriesFlow), start(ThreeTriesFlow)

    fail_again(first, 4)
    fail_again(second, 3)

    assert (reload(first).state, reload(second).state) == ("paused", "ready")


def test_the_count_does_not_need_the_details(app: Flask, plan: Plan) -> None:
    # EXC-39
    plan["one"] = boom
    workflow = fail_again(start(ThreeTriesFlow), 3)
    db.session.execute(update(workflows).values({workflows.c.details: None}))
    for execution in workflow.execution_history:
        execution.details.clear()
    db.session.commit()

    fail_again(workflow, 1)

    assert workflow.state == "paused"
