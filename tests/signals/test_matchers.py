"""Which signals a step takes: by name, by payload, by the user's own rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from flask_geneva import Signal, SignalMatcher, StepConfigurationError, Workflow, step
from flask_geneva.testing import assert_signal_state, assert_waiting_for_signal, perform_next_step, speedrun
from tests.engine.flows import reload, start
from tests.harness.models import Order, db, write_down
from tests.signals.flows import Ledger, PaidFlow, parked

SEEN: list[tuple[object, object]] = []


def expected(workflow: Any, payload: Any) -> object:
    SEEN.append((workflow, payload))
    return payload.get("cents") == workflow.total()


class Settled:
    """A rule of one's own, with a setting."""

    def __init__(self, least: int) -> None:
        self.least = least

    def matches(self, signal: Signal) -> bool:
        return signal.name in ("paid", "captured") and signal.payload["cents"] >= self.least


class CuriousMatcher:
    """Looks at what the row says."""

    def matches(self, signal: Signal) -> object:
        return (signal.workflow.hero.amount, signal.idempotency_key) == (7, "seven") and "yes"


EXPECTED = SignalMatcher("paid", expected)


class ExactFlow(Workflow[Order]):
    """Two steps share one matcher."""

    def total(self) -> int:
        return self.hero.amount

    @step(wait_for=EXPECTED)
    def deposit(self) -> None:
        write_down(self)

    @step(wait_for=EXPECTED)
    def balance(self) -> None:
        write_down(self)


class SharingFlow(Workflow[Order]):
    """Another class with the same matcher."""

    def total(self) -> int:
        return 1

    @step(wait_for=EXPECTED)
    def capture(self) -> None:
        write_down(self)


class EnoughFlow(Workflow[Order]):
    """Takes what is enough."""

    @step(wait_for=Settled(least=100))
    def capture(self) -> None:
        write_down(self, self.received_signal.name)


class CuriousFlow(Workflow[Order]):
    """Takes what its own matcher finds in the row."""

    @step(wait_for=CuriousMatcher())
    def capture(self) -> None:
        write_down(self)


class TruthyFlow(Workflow[Order]):
    """Its matcher answers with its argument."""

    @step(wait_for=SignalMatcher("paid", lambda workflow, payload: payload))
    def capture(self) -> None:
        write_down(self)


class MixedFlow(Workflow[Order]):
    """A name, a matcher and a rule of one's own in one list."""

    @step(wait_for=["refunded", SignalMatcher("paid", lambda workflow, payload: payload["cents"] == 5), Settled(100)])
    def capture(self) -> None:
        write_down(self, f"{self.received_signal.name} {self.received_signal.payload['cents']}")


def test_a_name_takes_any_payload(app: Flask, ledger: Ledger) -> None:
    # SIG-52
    for payload in ({}, None, "text", {"cents": 1}):
        workflow = parked()
        workflow.signal("paid", payload)

        speedrun(workflow)

        assert ledger(workflow)[1] == f"captured {payload}"


def test_a_wrong_payload_stays_and_the_right_one_wakes(app: Flask, ledger: Ledger) -> None:
    # SIG-53
    workflow = parked(ExactFlow, amount=5)
    workflow.signal("paid", {"cents": 4})
    assert_waiting_for_signal(workflow, "paid")
    assert_signal_state(workflow, "paid", "pending")

    workflow.signal("paid", {"cents": 5})
    perform_next_step(workflow)

    assert ledger(workflow) == ["deposit"]
    assert [signal.state for signal in workflow.signals] == ["pending", "consumed"]


def test_a_condition_sees_the_hero_and_the_methods_of_its_workflow(app: Flask) -> None:
    # SIG-54
    workflow = parked(ExactFlow, amount=3)

    workflow.hero.amount = 8
    workflow.signal("paid", {"cents": 8})

    assert_signal_state(workflow, "paid", "claimed")


def test_a_condition_runs_once_and_on_the_senders_own_object(app: Flask) -> None:
    # SIG-55
    workflow = parked(ExactFlow, amount=5)
    SEEN.clear()

    workflow.signal("paid", {"cents": 5})

    assert [(workflow, {"cents": 5})] == SEEN
    assert SEEN[0][0] is workflow


def test_at_the_gate_a_condition_runs_once_and_on_the_executors_object(app: Flask, ledger: Ledger) -> None:
    # SIG-55
    workflow = start(ExactFlow, amount=5)
    workflow.signal("paid", {"cents": 5})
    SEEN.clear()

    perform_next_step(workflow)

    assert [payload for _, payload in SEEN] == [{"cents": 5}]
    assert SEEN[0][0] is not workflow
    assert ledger(workflow) == ["deposit"]


def test_a_woken_step_is_not_matched_again(app: Flask, ledger: Ledger) -> None:
    # SIG-55, SIG-37
    workflow = parked(ExactFlow, amount=5)
    workflow.signal("paid", {"cents": 5})
    workflow.hero.amount = 6
    SEEN.clear()

    perform_next_step(workflow)

    assert (SEEN, ledger(workflow)) == ([], ["deposit"])


def test_a_matcher_of_ones_own_decides_alone(app: Flask, ledger: Ledger) -> None:
    # SIG-56
    for name in ("paid", "captured"):
        workflow = parked(EnoughFlow)
        for refused, cents in (("other", 100), (name, 99)):
            workflow.signal(refused, {"cents": cents})
            assert_waiting_for_signal(workflow)
        workflow.signal(name, {"cents": 100})

        speedrun(workflow)

        assert ledger(workflow) == [name]


def test_a_matcher_of_ones_own_finds_what_came_early(app: Flask, ledger: Ledger) -> None:
    # SIG-56, SIG-33
    workflow = start(EnoughFlow)
    for name, cents in [("other", 500), ("captured", 1), ("captured", 100), ("paid", 100)]:
        workflow.signal(name, {"cents": cents})

    speedrun(workflow)

    assert ledger(workflow) == ["captured"]
    assert [signal.state for signal in workflow.signals] == ["pending", "pending", "consumed", "pending"]


@pytest.mark.parametrize("arrive", [start, parked])
def test_a_matcher_of_ones_own_may_look_at_key_and_workflow(
    app: Flask, ledger: Ledger, arrive: Callable[..., Workflow[Any]]
) -> None:
    # SIG-56
    workflow = arrive(CuriousFlow, amount=7)
    workflow.signal("anything", idempotency_key="six")
    workflow.signal("anything", idempotency_key="seven")

    speedrun(workflow)

    assert ledger(workflow) == ["capture"]
    assert [signal.state for signal in workflow.signals] == ["pending", "consumed"]


@pytest.mark.parametrize(("payload", "state"), [(1, "claimed"), ([0], "claimed"), (0, "pending"), ([], "pending")])
def test_any_true_answer_counts(app: Flask, payload: object, state: str) -> None:
    # SIG-57
    workflow = parked(TruthyFlow)

    workflow.signal("paid", payload)

    assert_signal_state(workflow, "paid", state)


def test_one_matcher_serves_many_steps_and_classes(app: Flask, ledger: Ledger) -> None:
    # SIG-58
    exact, sharing = parked(ExactFlow, amount=2), parked(SharingFlow)
    for cents in (1, 2, 2):
        exact.signal("paid", {"cents": cents})
        sharing.signal("paid", {"cents": cents})

    speedrun(sharing)
    speedrun(exact)

    assert (ledger(exact), ledger(sharing)) == (["deposit", "balance"], ["capture"])


@pytest.mark.parametrize("name", [None, "", 7])
def test_a_matcher_needs_a_name(name: Any) -> None:
    # SIG-59
    with pytest.raises(StepConfigurationError, match="SignalMatcher: the name of the signal"):
        SignalMatcher(name)


@pytest.mark.parametrize(
    ("name", "cents", "state"),
    [
        ("refunded", 1, "claimed"),
        ("paid", 5, "claimed"),
        ("paid", 100, "claimed"),
        ("paid", 6, "pending"),
        ("captured", 5, "pending"),
    ],
)
def test_any_matcher_of_a_list_will_do(app: Flask, ledger: Ledger, name: str, cents: int, state: str) -> None:
    workflow = parked(MixedFlow)

    workflow.signal(name, {"cents": cents})

    assert_signal_state(workflow, name, state)


@pytest.mark.parametrize("arrive", [start, parked])
def test_of_a_list_the_signal_that_came_is_received(
    app: Flask, ledger: Ledger, arrive: Callable[..., Workflow[Any]]
) -> None:
    workflow = arrive(MixedFlow)
    workflow.signal("paid", {"cents": 5})

    speedrun(workflow)

    assert ledger(workflow) == ["paid 5"]


def test_a_matchers_answer_to_a_resume_is_asked_once(app: Flask) -> None:
    # SIG-55
    workflow = parked(ExactFlow, amount=5)
    workflow.pause()
    workflow.signal("paid", {"cents": 5})
    SEEN.clear()

    workflow.resume()

    assert [(workflow, {"cents": 5})] == SEEN
    assert reload_state(workflow) == "claimed"


def reload_state(workflow: Workflow[Any]) -> str:
    db.session.commit()
    return str(reload(workflow).signals[0].state)


def test_a_name_is_what_a_plain_string_says(app: Flask) -> None:
    # SIG-52
    (matcher,) = PaidFlow.steps["capture"].wait_for

    assert matcher == SignalMatcher("paid")
