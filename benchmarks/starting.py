"""How long a process takes to import the library, and an application to be set up with it.

``python -m benchmarks starting``. Each figure is CPU time, the median over processes of their own, whose modules are
compiled already. Beside them: the import of Flask-SQLAlchemy alone, which brings Flask and SQLAlchemy's ORM along.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median
from typing import Any

FOUNDATIONS = "import flask, flask_sqlalchemy, sqlalchemy.orm"
APPLICATION = """
def application():
    app, db = flask.Flask(__name__), flask_sqlalchemy.SQLAlchemy()
    app.config["SQLALCHEMY_DATABASE_URI"] = {database}
    db.init_app(app)
    with app.app_context():
        db.engine.dialect
    return app, db

app, db = application()
"""
INIT = "geneva.init_app(app, db)"

# What is said of it: what is done before, and what is measured.
SITUATIONS = {
    "import Flask-SQLAlchemy": ("", FOUNDATIONS),
    "import flask_geneva, Flask-SQLAlchemy being there": (FOUNDATIONS, "import flask_geneva"),
    "the same, RQ and redis being there": (f"{FOUNDATIONS}, rq, redis.sentinel", "import flask_geneva"),
    "import RQ and redis, which the first job does": (FOUNDATIONS, "import rq, redis.sentinel"),
    "init_app, the first of a process": (
        f"{FOUNDATIONS}{APPLICATION}from flask_geneva import Geneva; geneva = Geneva()",
        INIT,
    ),
    "init_app, of a second application": (
        f"{FOUNDATIONS}{APPLICATION}from flask_geneva import Geneva; geneva = Geneva(app, db); app, db = application()",
        INIT,
    ),
}


def measure(database: str, rounds: int) -> list[dict[str, Any]]:
    """Measure every situation by turns; the first round compiles, and is not counted."""
    found: dict[str, list[float]] = {name: [] for name in SITUATIONS}
    with tempfile.TemporaryDirectory() as compiled:
        for _ in range(rounds + 1):
            for name, (before, measured) in SITUATIONS.items():
                before = before.replace("{database}", repr(database))
                found[name].append(_seconds(before, measured, compiled))
    medians = {name: median(seconds[1:]) for name, seconds in found.items()}
    alone = medians["import Flask-SQLAlchemy"]
    return [
        {"what": name, "seconds": seconds, "least": min(found[name][1:]), "ratio": seconds / alone, "rounds": rounds}
        for name, seconds in medians.items()
    ]


def _seconds(before: str, measured: str, compiled: str) -> float:
    """The CPU seconds that the second takes in a process that has done the first."""
    program = f"import time\n{before}\nstart = time.process_time()\n{measured}\nprint(time.process_time() - start)"
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", program]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def told(row: dict[str, Any]) -> str:
    """One row in words."""
    return (
        f"{row['what']:50} {row['seconds'] * 1000:6.1f} ms (at least {row['least'] * 1000:.1f}), "
        f"{row['ratio']:.2f} x the import of Flask-SQLAlchemy"
    )
