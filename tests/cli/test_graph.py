"""``flask geneva graph``: a workflow class as a Mermaid flowchart."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from flask_geneva import SignalMatcher, Workflow, resumable_step, step
from tests.cli.conftest import Cli, change

pytestmark = pytest.mark.databases("sqlite")


class ClaimReview(Workflow):
    """Has a step of every kind."""

    may_proceed_without_hero = True

    @step
    def end(self) -> None:
        pass

    @step(wait_for=["yes", SignalMatcher('the "last" word')], deadline=timedelta(days=2), on_deadline="cancel")
    def decide(self) -> None:
        pass

    @resumable_step(wait=3600, skip_if=lambda self: True)
    def mail(self, it: object) -> None:
        pass


def test_the_graph_has_the_steps_in_their_order(cli: Cli) -> None:
    drawn = cli("graph", "ClaimReview")

    assert drawn.exit_code == 0
    assert drawn.stdout.splitlines() == [
        "flowchart TD",
        "    start([start])",
        '    start --> s1["end"]',
        "    s1 --> s2[\"decide<br/>waits for any of the signals 'yes', 'the #quot;last#quot; word'\"]",
        '    s2 -. "after 2 days: cancel" .-> s2_late(( ))',
        '    s2 --> s3[["mail<br/>after 1 hour<br/>may be skipped"]]',
        "    s3 --> finished([finished])",
    ]


def test_a_gravestone_is_not_drawn_but_listed_in_json(cli: Cli) -> None:
    # REM-02
    drawn = json.loads(cli("graph", "ParcelDispatch", "--json").stdout)

    assert "print_label" not in drawn["mermaid"]
    assert [(each["name"], each["removed"]) for each in drawn["steps"]] == [
        ("reserve", False),
        ("capture", False),
        ("print_label", True),
        ("ask_review", False),
    ]
    assert drawn["steps"][1]["deadline"] == timedelta(days=2).total_seconds()
    assert "workflows.py:" in drawn["steps"][0]["source"]


def test_a_class_that_nobody_knows_is_refused(cli: Cli) -> None:
    drawn = cli("graph", "ClaimReviews")

    assert drawn.exit_code == 1
    assert "There is no workflow class 'ClaimReviews'" in drawn.stderr
    assert "Did you mean 'ClaimReview'?" in drawn.stderr


def test_a_class_that_only_rows_know_cannot_be_drawn(cli: Cli) -> None:
    workflow = ClaimReview.create()
    change(workflow.id, type="GoneReview")

    drawn = cli("graph", "GoneReview")

    assert (drawn.exit_code, drawn.stderr) == (
        1,
        "Error: The class 'GoneReview' has rows, but no loaded module declares it.\n",
    )
