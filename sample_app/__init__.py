"""A small shop whose orders are fulfilled by a workflow; ``flask --app sample_app run`` serves it.

``DATABASE_URL`` and ``REDIS_URL`` name the database and the Redis. Without them it keeps a SQLite file in the
instance folder and expects Redis at its usual address (``python -m sample_app.embedded_redis 6379`` runs one).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from flask import Flask

MIGRATIONS = Path(__file__).parents[1] / "migrations"


def create_app(**config: Any) -> Flask:
    """Build the shop; ``config`` wins over the environment."""
    # Imported here, as in any application factory: who wants an embedded Redis only, does not get the shop with it.
    from sample_app import payments, provider, seeds, views  # noqa: F401 (payments registers its webhook)
    from sample_app.extensions import db, geneva, migrate

    app = Flask(__name__)
    app.config.from_mapping(
        SECRET_KEY=os.environ.get("SECRET_KEY", "a sample keeps no secrets"),
        SQLALCHEMY_DATABASE_URI=os.environ.get("DATABASE_URL") or _sqlite_file(app),
        REDIS_URL=os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"),
        PAYMENT_WEBHOOK_SECRET=os.environ.get("PAYMENT_WEBHOOK_SECRET", provider.TEST_SECRET),
    )
    app.config.from_mapping(config)
    db.init_app(app)
    migrate.init_app(app, db, directory=str(MIGRATIONS))
    geneva.init_app(app, db)
    for blueprint in (views.shop, provider.provider):
        app.register_blueprint(blueprint)
    app.cli.add_command(seeds.seed)
    return app


def _sqlite_file(app: Flask) -> str:
    folder = Path(app.instance_path)
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{folder / 'shop.db'}"
