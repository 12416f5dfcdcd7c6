"""The shop on a SQLite file, filled with goods; rows are written and nothing is sent to Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from sample_app import create_app
from sample_app.extensions import db
from sample_app.models import Order
from sample_app.seeds import fill_shop
from sample_app.workflows import OrderFulfillment


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    app = create_app(SQLALCHEMY_DATABASE_URI=f"sqlite:///{tmp_path / 'shop.db'}", GENEVA_ENQUEUE=False, TESTING=True)
    with app.app_context():
        db.create_all()
        fill_shop()
        db.session.commit()
        yield app
        db.session.remove()
        db.engine.dispose()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def place_order(client: FlaskClient) -> Callable[..., tuple[Order, OrderFulfillment]]:
    """Orders through the form of the front page: ``place_order(quantity_1=2, carrier_id=2)``."""

    def place(**form: int) -> tuple[Order, OrderFulfillment]:
        answer = client.post("/orders", data={"quantity_1": 1, "carrier_id": 1, **form})
        assert answer.status_code == 302
        order = db.session.get_one(Order, int(answer.location.rpartition("/")[2]))
        workflow = OrderFulfillment.ongoing_for(order)
        assert workflow is not None
        return order, workflow

    return place
