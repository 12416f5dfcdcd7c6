"""The signals that tell subscribers what happens."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from blinker import NamedSignal
from flask import Flask

from flask_geneva import events

NAMES = [
    "workflow_created",
    "precondition_evaluated",
    "step_started",
    "step_finished",
    "workflow_paused",
    "workflow_finished",
    "workflow_canceled",
    "signal_received",
    "housekeeping_finished",
]


@pytest.fixture
def bare_app() -> Flask:
    return Flask("bare")


@pytest.fixture
def signal() -> NamedSignal:
    return NamedSignal("something_happened")


@pytest.mark.parametrize("name", NAMES)
def test_every_event_has_a_name_and_says_what_it_is(name: str) -> None:
    event = getattr(events, name)

    assert event.name == name
    assert event.__doc__.endswith(".")


def test_a_subscriber_gets_the_application_and_the_facts(bare_app: Flask, signal: NamedSignal) -> None:
    heard: list[Any] = []

    def listen(sender: Flask, **facts: Any) -> None:
        heard.append((sender, facts))

    signal.connect(listen)
    events.send(signal, bare_app, workflow_id=7)

    assert heard == [(bare_app, {"workflow_id": 7})]


def test_a_subscriber_of_another_application_hears_nothing(bare_app: Flask, signal: NamedSignal) -> None:
    heard: list[Any] = []

    def listen(sender: Flask, **facts: Any) -> None:
        heard.append(facts)

    signal.connect(listen, sender=Flask("other"))
    events.send(signal, bare_app, workflow_id=7)

    assert heard == []


def test_a_subscriber_that_fails_is_logged_and_stops_nobody(
    bare_app: Flask, signal: NamedSignal, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def fail(sender: Flask) -> None:
        heard.append("failed")
        raise ValueError("no such subscriber")

    def listen(sender: Flask) -> None:
        heard.append("heard")

    signal.connect(fail)
    signal.connect(listen)
    with caplog.at_level(logging.ERROR, logger="flask_geneva"):
        events.send(signal, bare_app)

    assert sorted(heard) == ["failed", "heard"]
    assert "A subscriber of 'something_happened' failed" in caplog.text
    assert "no such subscriber" in caplog.text


def test_a_subscriber_with_the_wrong_arguments_is_logged(
    bare_app: Flask, signal: NamedSignal, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(sender: Flask) -> None: ...

    signal.connect(listen)
    events.send(signal, bare_app, workflow_id=7)

    assert "unexpected keyword argument 'workflow_id'" in caplog.text


def test_a_muted_event_is_not_sent(bare_app: Flask, signal: NamedSignal) -> None:
    heard: list[Flask] = []
    signal.connect(heard.append)

    with signal.muted():
        events.send(signal, bare_app)

    assert heard == []
