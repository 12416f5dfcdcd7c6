"""A step waits for a name, a name with a condition on the payload, an object of the user's, or any of several."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from flask_geneva.definition.signal_matchers import (
    SignalMatcher,
    accepts,
    could_match_name,
    describe,
    looks_like_signal,
    read_wait_for,
)
from tests.definition.plain import mistake


@dataclass
class Arrived:
    name: str
    payload: Any = None


class Urgent:
    def matches(self, signal: Arrived) -> object:
        return signal.payload == "urgent"


def test_a_name_accepts_signals_of_exactly_that_name() -> None:
    # DEF-15, SIG-52
    matchers = read_wait_for("paid", where="Order")

    assert matchers == (SignalMatcher("paid"),)
    assert [accepts(matchers, None, Arrived(name)) for name in ("paid", "Paid", "paid ")] == [True, False, False]


def test_a_predicate_sees_workflow_and_payload() -> None:
    # SIG-53, SIG-54, SIG-55, SIG-57
    matcher = SignalMatcher("paid", lambda workflow, payload: payload.get(workflow))

    assert accepts((matcher,), "the workflow", Arrived("paid", {"the workflow": "truthy"}))
    assert not accepts((matcher,), "another", Arrived("paid", {"the workflow": "truthy"}))


def test_a_predicate_is_not_asked_about_other_names() -> None:
    matcher = SignalMatcher("paid", lambda workflow, payload: 1 // 0)

    assert not accepts((matcher,), None, Arrived("other"))


def test_an_object_of_the_users_owns_the_whole_question() -> None:
    # DEF-16, SIG-56
    urgent = Urgent()
    matchers = read_wait_for(urgent, where="Order")

    assert matchers[0] is urgent
    assert accepts(matchers, None, Arrived("anything", "urgent"))
    assert not accepts(matchers, None, Arrived("anything", "calm"))


def test_any_of_a_list_wakes_the_step() -> None:
    matchers = read_wait_for(["paid", SignalMatcher("refused"), Urgent()], where="Order")

    assert [accepts(matchers, None, Arrived(name)) for name in ("paid", "refused", "other")] == [True, True, False]


def test_one_matcher_serves_many_steps() -> None:
    # SIG-58, DEF-16
    matcher = SignalMatcher("paid")

    assert read_wait_for(matcher, where="Order")[0] is read_wait_for([matcher], where="Return")[0]


@pytest.mark.parametrize("value", [True, object(), Urgent, [["paid"]], {"paid"}])
def test_anything_else_is_refused(value: Any) -> None:
    # DEF-17
    with mistake("Order", "a signal name, a SignalMatcher", "of class"):
        read_wait_for(value, where="Order")


@pytest.mark.parametrize("value", [timedelta(1), 5, [timedelta(1)]])
def test_a_time_is_pointed_at_wait(value: Any) -> None:
    # DEF-14
    with mistake("Order", "wait="):
        read_wait_for(value, where="Order")


@pytest.mark.parametrize("value", ["", "x" * 256, []])
def test_a_name_is_a_text_of_at_most_255_characters(value: Any) -> None:
    with mistake("Order"):
        read_wait_for(value, where="Order")


@pytest.mark.parametrize("name", ["", "x" * 256, None, 5])
def test_a_matcher_needs_a_name(name: Any) -> None:
    # SIG-59
    with mistake("SignalMatcher", "non-empty"):
        SignalMatcher(name)


@pytest.mark.parametrize("predicate", ["paid", 5, lambda payload: True])
def test_a_predicate_takes_workflow_and_payload(predicate: Any) -> None:
    with mistake("SignalMatcher('paid')", "(workflow, payload)"):
        SignalMatcher("paid", predicate)


def test_a_predicate_that_must_be_awaited_is_refused() -> None:
    async def predicate(workflow: object, payload: object) -> bool:
        return False

    with mistake("SignalMatcher('paid')", "async def"):
        SignalMatcher("paid", predicate)


def test_a_matcher_of_the_users_takes_the_signal() -> None:
    class Wrong:
        def matches(self) -> bool:
            return True

    class NoMethod:
        matches = True

    with mistake("Order", "cannot be called with (signal)"):
        read_wait_for(Wrong(), where="Order")
    with mistake("Order", "'matches'"):
        read_wait_for(NoMethod(), where="Order")


def test_a_matcher_is_a_value() -> None:
    matcher: Any = SignalMatcher("paid")

    assert matcher == SignalMatcher("paid")
    assert repr(matcher) == "SignalMatcher('paid')"
    with pytest.raises(AttributeError):
        matcher.name = "other"


@pytest.mark.parametrize(
    ("wait_for", "text"),
    [
        ("paid", "signal 'paid'"),
        (["paid", "refused"], "any of the signals 'paid', 'refused'"),
        (Urgent(), "a signal accepted by Urgent"),
        (["paid", Urgent()], "signal 'paid' or a signal accepted by Urgent"),
    ],
)
def test_what_is_awaited_can_be_told_to_people(wait_for: Any, text: str) -> None:
    assert describe(read_wait_for(wait_for, where="Order")) == text


def test_only_a_look_at_the_signal_tells_what_an_object_of_the_users_accepts() -> None:
    assert could_match_name((SignalMatcher("paid"),), "paid")
    assert not could_match_name((SignalMatcher("paid"),), "other")
    assert could_match_name((SignalMatcher("paid"), Urgent()), "other")


@pytest.mark.parametrize("value", ["paid", SignalMatcher("paid"), Urgent()])
def test_a_signal_can_be_told_from_a_duration(value: Any) -> None:
    # DEF-13
    assert looks_like_signal(value)
    assert not looks_like_signal(30)
