"""``flask geneva webhooks``: look at the delivery log, and hand a kept delivery to its handler again."""

from __future__ import annotations

import json
from typing import Any

import click
from flask import current_app

from flask_geneva.cli.group import OneLine, in_application
from flask_geneva.cli.options import as_json_option, delivery_id
from flask_geneva.cli.printing import moment, print_json, print_table, printable
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.webhooks.delivery_log import DeliveryOutcome, WebhookDelivery, latest
from flask_geneva.webhooks.reception import Reception
from flask_geneva.webhooks.views import Webhooks


@click.group("webhooks")
def webhook_commands() -> None:
    """Look at webhook deliveries, and hand one to its handler again."""


@webhook_commands.command("list")
@click.option("--source", help="Only deliveries to this source.")
@click.option(
    "--outcome", type=click.Choice([outcome.value for outcome in DeliveryOutcome]), help="Only with this end."
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@as_json_option
@in_application
def list_deliveries(source: str | None, outcome: str | None, limit: int, as_json: bool) -> None:
    """List the newest deliveries, the refused ones too."""
    rows = latest(current_runtime().session(), source=source, outcome=outcome, limit=limit)
    if as_json:
        print_json([_facts(row) for row in rows])
        return
    print_table(map(_line, rows))
    if not rows:
        click.echo("No deliveries.")


@webhook_commands.command("show")
@click.argument("row_id", metavar="ID", type=delivery_id)
@as_json_option
@in_application
def show_delivery(row_id: int, as_json: bool) -> None:
    """Show one delivery, with its body where that was kept."""
    row = current_runtime().session().get(WebhookDelivery, row_id)
    if row is None:
        raise OneLine(f"There is no webhook delivery #{row_id}.")
    body = None if row.body is None else row.body.decode("utf-8", "replace")
    facts = _facts(row) | {"headers": row.headers, "body": body}
    if as_json:
        print_json(facts)
        return
    print_table((name.replace("_", " "), _as_text(value)) for name, value in facts.items() if value is not None)


@webhook_commands.command("replay")
@click.argument("row_id", metavar="ID", type=delivery_id)
@in_application
def replay_delivery(row_id: int) -> None:
    """Hand a kept delivery to its handler again, whatever its age; what was delivered already is a duplicate.

    A delivery without an event id cannot be known again: replay it only where it was not delivered.
    """
    state = current_app.extensions["geneva"]
    reception = Webhooks(state.runtime, state.geneva.webhook_sources).replay(row_id)
    click.echo(printable(_replayed(row_id, reception)))
    if reception.problem is not None:
        click.get_current_context().exit(1)


def _replayed(row_id: int, reception: Reception) -> str:
    why = f": {reception.reason}" if reception.reason else ""
    signals = () if reception.receipt is None else reception.receipt.signals
    made = "".join(f", signal #{each.signal_id} '{each.name}' of workflow #{each.workflow_id}" for each in signals)
    return f"Delivery #{row_id} to '{reception.source}': {reception.outcome} ({reception.http_status}){why}{made}"


def _facts(row: WebhookDelivery) -> dict[str, Any]:
    return {
        "id": row.id,
        "received_at": row.received_at,
        "source": row.source,
        "outcome": str(row.outcome),
        "http_status": row.http_status,
        "reason": row.reason,
        "event_id": row.event_id,
        "event_type": row.event_type,
        "sent_at": row.sent_at,
        "workflow_id": row.workflow_id,
        "signal_id": row.signal_id,
        "signal_name": row.signal_name,
        "signals": row.signals,
        "body_hash": row.body_hash,
        "body_size": row.body_size,
        "replay_of_id": row.replay_of_id,
    }


def _line(row: WebhookDelivery) -> tuple[str, ...]:
    event = " ".join(part for part in (row.event_type, row.event_id) if part)
    signal = "" if row.signal_id is None else f"-> {row.signal_name} of workflow #{row.workflow_id}"
    ended = f"{row.http_status} {row.outcome}"
    return f"#{row.id}", moment(row.received_at), row.source, ended, event, signal or row.reason or ""


def _as_text(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
