from __future__ import annotations

import json

import pytest
from sqlalchemy import text

from flask_geneva.webhooks import Delivery, StandardWebhook
from tests.webhooks.signing import SECRET


@pytest.fixture
def shop(make_shop):
    """A shop that keeps bodies, and whose handler fails until it is mended."""
    shop = make_shop(GENEVA_WEBHOOK_KEEP_BODIES=True)
    shop.workflow_id = shop.start()
    shop.mended = False

    @shop.geneva.webhook("payments", StandardWebhook(SECRET))
    def handle(event):
        if not shop.mended:
            raise RuntimeError("a bug")
        return Delivery(shop.workflow(shop.workflow_id), "paid", payload=event.data)

    return shop


@pytest.fixture
def run(shop):
    return lambda *arguments: shop.app.test_cli_runner().invoke(args=["geneva", "webhooks", *map(str, arguments)])


def test_deliveries_are_listed_newest_first(shop, run):
    shop.deliver({"type": "invoice.paid"}, id="one")
    shop.mended = True
    shop.deliver({}, id="two")

    first, second = run("list").output.splitlines()

    assert "202 delivered  two " in first
    assert f"-> paid of workflow #{shop.workflow_id}" in first
    assert "500 failed     invoice.paid one  RuntimeError: a bug" in second


def test_the_list_can_be_narrowed(shop, run):
    shop.deliver({}, id="one")

    assert [row["event_id"] for row in json.loads(run("list", "--json", "--outcome", "failed").output)] == ["one"]
    assert run("list", "--source", "parcels").output == "No deliveries.\n"
    assert run("list", "--outcome", "lost").exit_code == 2


def test_one_delivery_is_shown_with_its_body(shop, run):
    shop.deliver({"amount": 5})
    [row] = shop.log()

    assert '{"amount": 5}' in run("show", row.id).output
    shown = json.loads(run("show", row.id, "--json").output)
    assert (shown["body"], shown["body_hash"], shown["reason"]) == (
        '{"amount": 5}',
        row.body_hash,
        "RuntimeError: a bug",
    )


def test_a_replay_says_what_it_made(shop, run):
    shop.deliver({"amount": 5})
    [row] = shop.log()

    failed = run("replay", row.id)
    shop.mended = True
    delivered = run("replay", row.id)

    assert (failed.exit_code, delivered.exit_code) == (1, 0)
    assert "failed (500): RuntimeError: a bug" in failed.output
    assert f"delivered (202), signal #{shop.log()[-1].signal_id} 'paid'" in delivered.output
    assert shop.signals(shop.workflow_id) == [("paid", {"amount": 5})]


def test_what_a_sender_wrote_cannot_steer_the_terminal(shop, run):
    shop.deliver({"type": "a\nb\x1b[2J", "text": "\x1b[31m"})
    [row] = shop.log()

    for shown in (run("list").output, run("show", row.id).output):
        assert r"a\nb\x1b[2J" in shown
        assert "\x1b" not in shown


def test_a_log_that_was_not_installed_is_one_line_of_error_with_the_remedy(shop, run, db):
    with shop.app.app_context():
        db.session.execute(text("ALTER TABLE geneva_webhook_deliveries RENAME TO hidden_away"))
        db.session.commit()

    try:
        result = run("list")
    finally:
        with shop.app.app_context():
            db.session.execute(text("ALTER TABLE hidden_away RENAME TO geneva_webhook_deliveries"))
            db.session.commit()

    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "flask geneva install" in result.stderr


@pytest.mark.parametrize("identity", ["seven", "-1", "1.5"])
def test_what_is_no_id_is_a_wrong_call(run, identity):
    for command in ("show", "replay"):
        assert run(command, identity).exit_code == 2


@pytest.mark.parametrize("command", ["show", "replay"])
def test_an_unknown_delivery_is_one_line_of_error(shop, run, command):
    result = run(command, 999)

    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "#999" in result.stderr
