"""Does once, before a worker forks, what each of its children would have to do again."""

from __future__ import annotations

import logging

from flask import Flask
from sqlalchemy.orm import configure_mappers

logger = logging.getLogger(__name__)


def warm_up(app: Flask) -> None:
    """Configure the mappers, and learn from the databases what they are; where one is away, the children will."""
    configure_mappers()
    with app.app_context():
        for engine in app.extensions["geneva"].db.engines.values():
            try:
                engine.connect().close()
            except Exception as error:
                logger.warning("The database cannot be reached yet: %s", error)
