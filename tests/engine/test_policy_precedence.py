"""Which of several policies decides about an error."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from flask_geneva import ExceptionPolicy, StepTimeout, Workflow, on_exception, step
from flask_geneva.testing import perform_next_step
from tests.engine.elsewhere import Plan
from tests.engine.failing import raising
from tests.engine.flows import Boom, Other, boom, planned, start, states
from tests.harness.models import Order


class Worse(Boom):
    """A special case of what goes wrong."""


class PrecedenceFlow(Workflow[Order]):
    """Steps with policies of their own in a class that has some, too."""

    exception_policies = [
        ExceptionPolicy("reattempt"),
        ExceptionPolicy("cancel", matching=Other),
        ExceptionPolicy("skip", matching=Boom),
        ExceptionPolicy("cancel", matching=Worse),
    ]

    @step(on_exception="skip")
    def by_action(self) -> None:
        planned("fail", self)

    @step(on_exception=ExceptionPolicy("skip"))
    def by_policy(self) -> None:
        planned("fail", self)

    @step(on_exception=lambda workflow, error: workflow.skip())
    def by_handler(self) -> None:
        planned("fail", self)

    @step(on_exception="pause")
    def by_pause(self) -> None:
        planned("fail", self)

    @step(on_exception=[ExceptionPolicy("skip", matching=KeyError), ExceptionPolicy("pause", matching=OSError)])
    def by_list(self) -> None:
        planned("fail", self)

    @step
    def by_class(self) -> None:
        planned("fail", self)


class ChildPrecedenceFlow(PrecedenceFlow):
    """Adds a blanket policy."""

    exception_policies = [ExceptionPolicy("pause")]


class HandledPrecedenceFlow(PrecedenceFlow):
    """Adds handlers below the policies of its parent."""

    @on_exception(Other)
    def skip_it(self, error: Exception) -> None:
        self.skip()

    @on_exception
    def finish_it(self, error: Exception) -> None:
        self.finish()


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("workflow_class", "step_name", "error", "outcome"),
    [
        (PrecedenceFlow, "by_action", Other(), "skipped"),  # EXC-08
        (PrecedenceFlow, "by_policy", Other(), "skipped"),  # EXC-09
        (PrecedenceFlow, "by_handler", Other(), "skipped"),  # EXC-10
        (PrecedenceFlow, "by_pause", Boom(), "failed"),  # EXC-18
        (PrecedenceFlow, "by_list", KeyError(), "skipped"),  # EXC-25
        (PrecedenceFlow, "by_list", OSError(), "failed"),  # EXC-25
        (PrecedenceFlow, "by_list", Other(), "canceled"),  # EXC-27
        (PrecedenceFlow, "by_list", ValueError(), "reattempted"),  # EXC-27, EXC-11
        (PrecedenceFlow, "by_class", ValueError(), "reattempted"),  # EXC-11
        (PrecedenceFlow, "by_class", Other(), "canceled"),  # EXC-12, EXC-17
        (PrecedenceFlow, "by_class", Boom(), "skipped"),  # EXC-12, EXC-17
        (PrecedenceFlow, "by_class", Worse(), "canceled"),  # EXC-13
        (ChildPrecedenceFlow, "by_class", ValueError(), "failed"),  # EXC-14
        (ChildPrecedenceFlow, "by_class", Boom(), "skipped"),  # EXC-15
        (HandledPrecedenceFlow, "by_class", Other(), "skipped"),  # EXC-13, EXC-15
        (HandledPrecedenceFlow, "by_class", ValueError(), "success"),  # EXC-14
        (HandledPrecedenceFlow, "by_class", Worse(), "canceled"),  # EXC-15
        (HandledPrecedenceFlow, "by_action", Other(), "skipped"),  # EXC-08
    ],
)
def test_the_policy_that_stands_nearest_decides(
    app: Flask, plan: Plan, workflow_class: type[Workflow[Any]], step_name: str, error: Exception, outcome: str
) -> None:
    plan["fail"] = raising(error)
    workflow = start(workflow_class)
    workflow.pause()
    workflow.resume_at(step_name)

    perform_next_step(workflow, raise_errors=False)

    assert workflow.execution_history[1].outcome == outcome


class ListedFlow(Workflow[Order]):
    """A step with a list of policies, its blanket member first."""

    @step(
        on_exception=[
            ExceptionPolicy("skip"),
            ExceptionPolicy("cancel", matching=Boom),
            ExceptionPolicy("reattempt", matching=lambda error: "again" in str(error)),
            ExceptionPolicy("pause", matching=[Other, "no.such.Error"]),
        ]
    )
    def one(self) -> None:
        planned("fail", self)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Worse("again"), "canceled"),  # EXC-28
        (Other("again"), "reattempted"),  # EXC-28
        (Other(), "failed"),  # EXC-25
        (ValueError(), "skipped"),  # EXC-26, EXC-29, B-18
        (StepTimeout(), "skipped"),  # EXC-26
    ],
)
def test_in_a_list_the_first_specific_match_wins_and_the_blanket_comes_last(
    app: Flask, plan: Plan, error: Exception, outcome: str
) -> None:
    plan["fail"] = raising(error)
    workflow = start(ListedFlow)

    perform_next_step(workflow, raise_errors=False)

    assert workflow.execution_history[0].outcome == outcome


class UnmatchedFlow(Workflow[Order]):
    """Its only policies are about something else."""

    exception_policies = [ExceptionPolicy("skip", matching=KeyError), ExceptionPolicy("cancel", matching="nowhere.X")]

    @step(on_exception=ExceptionPolicy("skip", matching=OSError))
    def one(self) -> None:
        boom()


@pytest.mark.databases("sqlite")
def test_where_nothing_matches_the_workflow_is_paused(app: Flask) -> None:
    # EXC-16
    workflow = start(UnmatchedFlow)

    perform_next_step(workflow, raise_errors=False)

    assert (workflow.state, states(workflow)) == ("paused", [("one", "failed", "failed")])
