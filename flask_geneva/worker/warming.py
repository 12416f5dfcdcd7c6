"""Does once, before a worker forks, what each of its children would have to do again."""

from __future__ import annotations

import gc
import logging

from flask import Flask
from sqlalchemy.orm import configure_mappers

from flask_geneva.engine.rehearsal import rehearse

logger = logging.getLogger(__name__)


def warm_up(app: Flask) -> None:
    """Configure the mappers, learn from the databases what they are, compile the statements of a step."""
    configure_mappers()
    with app.app_context():
        try:
            for engine in app.extensions["geneva"].db.engines.values():
                engine.connect().close()
            rehearse(app.extensions["geneva"].runtime)
        except Exception as error:
            logger.warning("The worker begins without preparation: %s", error)
    # What is there before the fork stays for good: a child that collects garbage need not look at it, nor copy it.
    gc.collect()
    gc.freeze()
