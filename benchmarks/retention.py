"""What it costs to delete many workflows that ended long ago: batches, memory, and the delay of a step meanwhile.

``python -m benchmarks.retention`` works on PostgreSQL, in a database of its own; the Redis database is emptied.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

from sqlalchemy import func, select, text

from benchmarks.place import db, geneva, place
from benchmarks.scale_loader import load
from benchmarks.wake_latency import latencies
from flask_geneva.records.tables import workflows
from flask_geneva.states import ENDED_WORKFLOW_STATES

# In a process of its own, whose memory is that of housekeeping alone.
RUN = """
import json, resource, sys
from flask import Flask
from sqlalchemy import event
from benchmarks.place import db, geneva
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.housekeeping.run import run_housekeeping
url, redis_url = sys.argv[1:]
app = Flask("benchmark")
app.config.from_mapping(SQLALCHEMY_DATABASE_URI=url, GENEVA_REDIS_URL=redis_url)
db.init_app(app)
geneva.init_app(app, db)
kilobytes = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with app.app_context():
    deletes = []
    count = lambda *said: deletes.append(1) if said[2].startswith("DELETE") else None
    event.listen(db.engine, "before_cursor_execute", count)
    before = kilobytes()
    done = run_housekeeping(current_runtime()).as_dict()
print(json.dumps({"done": done, "deletes": len(deletes), "before": before, "after": kilobytes()}))
"""


def main() -> None:
    """Load, age what has ended, delete it in one process, and wake steps in another one meanwhile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/14")
    parser.add_argument("--number", type=int, default=1_000_000, help="workflows that have ended")
    parser.add_argument("--wakes", type=int, default=100, help="steps that are woken meanwhile")
    asked = parser.parse_args()
    with place(asked.database, asked.redis, GENEVA_HOUSEKEEPING_INTERVAL=None) as here:
        # Nine of ten that are loaded have ended.
        load(here.database_url, asked.number * 10 // 9)
        db.session.execute(text("UPDATE geneva_workflows SET transitioned_at = transitioned_at - interval '31 days'"))
        db.session.commit()
        # The worker that is woken must not take a part of the work.
        geneva.redis.set("geneva:housekeeping:geneva", "benchmark", ex=86_400)
        geneva.redis.set("geneva:memory:geneva", 1)
        began = time.perf_counter()
        command = [sys.executable, "-c", RUN, here.database_url, here.redis_url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as housekeeping:
            delays = latencies(here, asked.wakes, fork=False)
            is_over = housekeeping.poll() is not None
            told = json.loads(housekeeping.communicate()[0])
        _tell(told, time.perf_counter() - began, delays, is_over=is_over)
        ended = select(func.count()).select_from(workflows).where(workflows.c.state.in_(ENDED_WORKFLOW_STATES))
        print(f"ended workflows that are left: {db.session.scalar(ended)}")


def _tell(told: dict[str, Any], seconds: float, delays: list[float], *, is_over: bool) -> None:
    deleted = {name: number for name, number in told["done"].items() if number}
    print(f"deleted in {seconds:.0f} s, {told['deletes']} DELETEs: {deleted}")
    print(f"memory of the process: {told['after'] / 1024:.0f} MB at most, {told['before'] / 1024:.0f} MB before")
    overlap = "the run was over before the last of them" if is_over else "all of them while it ran"
    print(f"steps woken meanwhile ({overlap}): median {delays[len(delays) // 2]:.1f} ms, worst {delays[-1]:.1f} ms")


if __name__ == "__main__":
    main()
