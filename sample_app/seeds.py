"""Fills an empty shop: ``flask --app sample_app seed``."""

from __future__ import annotations

import click
from flask.cli import with_appcontext
from sqlalchemy import select

from sample_app.extensions import db
from sample_app.models import Carrier, Product, Supplier


def fill_shop() -> None:
    """Put goods and carriers into a shop that has none; flushes."""
    if db.session.scalars(select(Product).limit(1)).first():
        return
    alps = Supplier(name="Alpine Paper", email="orders@alpine-paper.example")
    lake = Supplier(name="Lakeside Ink", email="orders@lakeside-ink.example")
    db.session.add_all(
        [
            Product(name="Notebook", price_cents=1290, stock=100, supplier=alps),
            Product(name="Blotting paper", price_cents=390, stock=100, supplier=alps),
            Product(name="Blue ink", price_cents=850, stock=100, supplier=lake),
            Product(name="Gold ink", price_cents=4900, stock=1, supplier=lake),
            Carrier(name="Swift Post"),
            Carrier(name="Turtle Express", is_down=True),
        ]
    )
    db.session.flush()


@click.command("seed")
@with_appcontext
def seed() -> None:
    """Put goods and carriers into an empty shop."""
    fill_shop()
    db.session.commit()
    click.echo("The shop has goods and carriers.")
