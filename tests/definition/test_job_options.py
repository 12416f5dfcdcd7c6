"""job_options are checked wherever they are given, and come back as they can be stored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flask_geneva.definition.job_options import merge_job_options, read_job_options
from tests.definition.plain import mistake


def test_every_documented_option_is_taken() -> None:
    # JOB-05
    options = {
        "queue": "orders",
        "timeout": timedelta(minutes=10),
        "at_front": True,
        "ttl": 60.5,
        "result_ttl": 0,
        "failure_ttl": -1,
        "description": "an order",
        "meta": {"team": "sales"},
    }

    assert read_job_options(options, "Order") == {**options, "timeout": 600, "ttl": 61}


def test_an_option_that_is_none_is_not_given() -> None:
    # JOB-07, JOB-10, JOB-11
    assert read_job_options({"queue": None, "ttl": 5}, "Order") == {"ttl": 5}
    assert read_job_options(None, "Order") == {}


@pytest.mark.parametrize("key", ["priority", "wait", "Queue", 5])
def test_another_option_is_refused_and_the_known_ones_listed(key: Any) -> None:
    # JOB-05, JOB-06
    with mistake("Order", "job_options", str(key), "queue, timeout, at_front"):
        read_job_options({key: 1}, "Order")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("queue", 5),
        ("queue", ""),
        ("timeout", 0),
        ("timeout", -1),
        ("timeout", "1h"),
        ("at_front", 1),
        ("ttl", 0),
        ("result_ttl", -2),
        ("failure_ttl", True),
        ("description", 5),
        ("meta", []),
        ("meta", {5: "five"}),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(key: str, value: Any) -> None:
    # JOB-07
    with mistake("Order", f"job_options['{key}']"):
        read_job_options({key: value}, "Order")


@pytest.mark.parametrize("options", ["orders", ["queue"], 5])
def test_options_are_a_mapping(options: Any) -> None:
    # JOB-08
    with mistake("Order", "must be a mapping"):
        read_job_options(options, "Order")


def test_of_several_levels_the_last_wins() -> None:
    # JOB-02, JOB-03
    merged = merge_job_options({"queue": "class", "ttl": 5}, {"queue": "instance"}, {"at_front": True})

    assert merged == {"queue": "instance", "ttl": 5, "at_front": True}
