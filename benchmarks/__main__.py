"""Run the benchmarks and print what they found: ``python -m benchmarks``, or ``make bench ARGS="scale waits"``."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from benchmarks import bulk_create, checkpoints, contention, scale, starting, steps, waits, wake_latency

Rows = list[dict[str, Any]]
Measure = Callable[[argparse.Namespace], Rows]

BENCHMARKS: dict[str, tuple[Measure, Callable[[dict[str, Any]], str]]] = {
    "starting": (lambda asked: starting.measure(asked.database, max(asked.size // 5, 1)), starting.told),
    "steps": (lambda asked: steps.measure(asked.database, asked.redis, asked.size), steps.told),
    "bulk_create": (
        lambda asked: bulk_create.measure(asked.database, asked.redis, asked.size * 200),
        bulk_create.told,
    ),
    "wake_latency": (
        lambda asked: wake_latency.measure(asked.database, asked.redis, asked.size * 2),
        wake_latency.told,
    ),
    "waits": (lambda asked: waits.measure(asked.database, asked.redis, asked.size, asked.size * 400), waits.told),
    "checkpoints": (
        lambda asked: checkpoints.measure(asked.database, asked.redis, asked.size * 10, asked.size * 20_000),
        checkpoints.told,
    ),
    "contention": (lambda asked: contention.measure(asked.database, asked.redis, asked.size * 8), contention.told),
    "scale": (lambda asked: scale.measure(asked.database, asked.redis, asked.scale), scale.told),
}


def main() -> None:
    """Run what was asked for, print each row as it is found, and write all of them to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(BENCHMARKS)}")
    parser.add_argument("--database", default="postgresql+psycopg://postgres@127.0.0.1:5432/postgres", help="a server")
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/14", help="this Redis database is emptied")
    parser.add_argument("--size", type=int, default=50, help="how much is measured; 50 are 10,000 bulk creations")
    parser.add_argument("--scale", type=int, nargs="+", default=[1_000, 100_000, 1_000_000], help="workflows there are")
    parser.add_argument("--json", type=Path, default=Path("build/benchmarks.json"), help="where the rows are written")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark '{unknown[0]}'; there are {', '.join(BENCHMARKS)}")
    facts = _facts(asked.database)
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    found: dict[str, Rows] = {}
    for name in asked.names or BENCHMARKS:
        measure, told = BENCHMARKS[name]
        print(f"\n{name}", flush=True)
        found[name] = measure(asked)
        for row in found[name]:
            print(f"  {told(row)}", flush=True)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps({"at": datetime.now(UTC).isoformat(), "facts": facts, "rows": found}, indent=2))
    print(f"\nwritten to {asked.json}")


def _facts(database: str) -> dict[str, str]:
    engine = create_engine(database)
    with engine.connect() as connection:
        server = ".".join(str(part) for part in connection.dialect.server_version_info or ())
        name = connection.dialect.name
    engine.dispose()
    packages = {package: version(package) for package in ("flask-geneva", "sqlalchemy", "rq", "redis")}
    return {name: server, "python": platform.python_version(), **packages}


if __name__ == "__main__":
    main()
