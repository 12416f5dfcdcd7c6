"""``flask geneva webhooks``: look at the delivery log, and hand a kept delivery to its handler again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from flask import current_app
from flask.cli import AppGroup
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from flask_geneva.engine.runtime import current_runtime
from flask_geneva.errors import GenevaError
from flask_geneva.webhooks.delivery_log import DeliveryOutcome, WebhookDelivery, latest
from flask_geneva.webhooks.reception import Reception
from flask_geneva.webhooks.views import Webhooks

webhook_commands = AppGroup("webhooks", help="Look at webhook deliveries, and hand one to its handler again.")
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@webhook_commands.command("list")
@click.option("--source", help="Only deliveries to this source.")
@click.option(
    "--outcome", type=click.Choice([outcome.value for outcome in DeliveryOutcome]), help="Only with this end."
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@_AS_JSON
def list_deliveries(source: str | None, outcome: str | None, limit: int, as_json: bool) -> None:
    """List the newest deliveries, the refused ones too."""
    with _reading() as session:
        rows = latest(session, source=source, outcome=outcome, limit=limit)
        shown = [_facts(row) for row in rows]
    if as_json:
        click.echo(json.dumps(shown, indent=2))
        return
    for facts in shown:
        click.echo(_line(facts))
    if not shown:
        click.echo("No deliveries.")


@webhook_commands.command("show")
@click.argument("delivery_id", metavar="ID", type=int)
@_AS_JSON
def show_delivery(delivery_id: int, as_json: bool) -> None:
    """Show one delivery, with its body where that was kept."""
    with _reading() as session:
        row = session.get(WebhookDelivery, delivery_id)
        if row is None:
            _give_up(f"There is no webhook delivery #{delivery_id}.")
        facts = _facts(row) | {
            "headers": row.headers,
            "body": None if row.body is None else row.body.decode("utf-8", "replace"),
        }
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        if value is not None:
            click.echo(f"{name.replace('_', ' '):<14} {value if isinstance(value, str | int) else json.dumps(value)}")


@webhook_commands.command("replay")
@click.argument("delivery_id", metavar="ID", type=int)
def replay_delivery(delivery_id: int) -> None:
    """Hand a kept delivery to its handler again, whatever its age; what was delivered already is a duplicate."""
    state = current_app.extensions["geneva"]
    try:
        reception = Webhooks(state.runtime, state.geneva.webhook_sources).replay(delivery_id)
    except GenevaError as error:
        _give_up(str(error))
    except DBAPIError as error:
        _give_up(_first_line(error))
    click.echo(_replayed(delivery_id, reception))
    if reception.problem is not None:
        raise SystemExit(1)


def _replayed(delivery_id: int, reception: Reception) -> str:
    why = f": {reception.reason}" if reception.reason else ""
    signals = () if reception.receipt is None else reception.receipt.signals
    made = "".join(f", signal #{each.signal_id} '{each.name}' of workflow #{each.workflow_id}" for each in signals)
    return f"Delivery #{delivery_id} to '{reception.source}': {reception.outcome} ({reception.http_status}){why}{made}"


@contextmanager
def _reading() -> Iterator[Session]:
    try:
        yield current_runtime().session()
    except DBAPIError as error:
        _give_up(_first_line(error))


def _give_up(text: str) -> NoReturn:
    raise click.ClickException(text)


def _first_line(error: DBAPIError) -> str:
    return f"The delivery log cannot be read: {str(error.orig).splitlines()[0]}"


def _facts(row: WebhookDelivery) -> dict[str, Any]:
    return {
        "id": row.id,
        "received_at": row.received_at.isoformat(),
        "source": row.source,
        "outcome": str(row.outcome),
        "http_status": row.http_status,
        "reason": row.reason,
        "event_id": row.event_id,
        "event_type": row.event_type,
        "sent_at": None if row.sent_at is None else row.sent_at.isoformat(),
        "workflow_id": row.workflow_id,
        "signal_id": row.signal_id,
        "signal_name": row.signal_name,
        "signals": row.signals,
        "body_hash": row.body_hash,
        "body_size": row.body_size,
        "replay_of_id": row.replay_of_id,
    }


def _line(facts: dict[str, Any]) -> str:
    event = " ".join(facts[name] for name in ("event_type", "event_id") if facts[name])
    signal = f"-> {facts['signal_name']} of workflow #{facts['workflow_id']}" if facts["signal_id"] else ""
    moment = facts["received_at"][:19].replace("T", " ")
    parts = (f"#{facts['id']}", moment, facts["source"], f"{facts['http_status']} {facts['outcome']}", event, signal)
    return "  ".join(part for part in (*parts, facts["reason"]) if part)
