"""Fills PostgreSQL with as many workflows as wanted, in a few statements: most have ended, some wait, a few are parked.

``python -m benchmarks.scale_loader --database URL --size 1000000`` fills a database that has our tables.
"""

from __future__ import annotations

import argparse
import time

from sqlalchemy import create_engine, text

# Of each hundred, by the number of the workflow: 1 is parked, 9 wait for time, 90 have ended.
_PARKED, _WAITING = 1, 10
# So many at every size: what is late or paused is to be found among few and among many.
OVERDUE = PAUSED = 5
FIRST_PARKED = 100

_WORKFLOWS = f"""
INSERT INTO geneva_workflows (type, hero_type, hero_id, state, next_step_name, allow_multiple,
    started_at, transitioned_at, created_at, updated_at)
SELECT CAST(:workflow_class AS text), CAST(:hero_class AS text), n::text, state,
    CASE WHEN state = 'finished' THEN NULL WHEN place < {_PARKED} THEN 'confirm' ELSE 'deliver' END, false,
    created, CASE WHEN state <> 'ready' THEN created + interval '1 hour' END,
    created, created
FROM (SELECT n, place, now() - interval '29 days' * (:size - n) / :size AS created, CASE
        WHEN place >= {_WAITING} THEN CASE WHEN n % 10 = 5 THEN 'canceled' ELSE 'finished' END
        WHEN n <= 100 * ({PAUSED} + 1) AND place = 1 THEN 'paused' ELSE 'ready' END AS state
    FROM (SELECT n, CASE WHEN n <= :parked THEN 0 ELSE n % 100 END AS place FROM generate_series(1, :size) n) places
) states ORDER BY states.n
"""
_STAMPS = "completed_iterations, error_reattempts, death_reattempts, stalled_runs, created_at, updated_at"
_PAST = f"""
INSERT INTO geneva_step_executions (workflow_id, step_name, state, outcome, scheduled_for, started_at, finished_at,
    completed_at, job_id, {_STAMPS})
SELECT id, step_name, 'completed', 'success', created_at, created_at, created_at, created_at,
    'past' || step_name || id, 0, 0, 0, 0, created_at, created_at
FROM geneva_workflows, (VALUES ('pack'), ('deliver')) steps (step_name)
WHERE step_name = 'pack' OR next_step_name IS DISTINCT FROM 'deliver'
"""
_OPEN = f"""
INSERT INTO geneva_step_executions (workflow_id, step_name, state, scheduled_for, waiting_since, job_id, {_STAMPS})
SELECT id, next_step_name, CASE next_step_name WHEN 'confirm' THEN 'waiting' ELSE 'scheduled' END,
    CASE WHEN next_step_name = 'confirm' THEN created_at
        WHEN row_number() OVER (PARTITION BY next_step_name ORDER BY id) <= {OVERDUE} THEN now() - interval '1 hour'
        ELSE now() + interval '1 hour' + interval '3 days' * random() END,
    CASE WHEN next_step_name = 'confirm' THEN created_at END,
    CASE WHEN next_step_name <> 'confirm' THEN 'open' || id || 'of' || :size END, 0, 0, 0, 0, created_at, created_at
FROM geneva_workflows WHERE state = 'ready' ORDER BY id
"""
_SIGNALS = """
INSERT INTO geneva_signals (workflow_id, name, idempotency_key, state, payload, claimed, consumed, claimed_at,
    consumed_at, created_at, updated_at)
SELECT id, 'received', 'key' || id, 'consumed', '{}', 1, 1, created_at, created_at, created_at, created_at
FROM geneva_workflows WHERE state = 'finished' AND id % 2 = 0
"""
_TABLES = "geneva_workflows, geneva_step_executions, geneva_signals"


def load(database_url: str, size: int, workflow_class: str = "Shipment", hero_class: str = "Parcel") -> None:
    """Write so many workflows with their executions and signals into empty tables, and renew the statistics.

    Their steps are those of a shipment: packed, delivered after a while, confirmed from outside. The heroes have the
    keys from 1 to ``size`` and are not written; the first workflows are parked, as many at any size.
    """
    values = {"size": size, "parked": FIRST_PARKED, "workflow_class": workflow_class, "hero_class": hero_class}
    engine = create_engine(database_url)
    with engine.begin() as connection:
        for statement in (_WORKFLOWS, _PAST, _OPEN, _SIGNALS):
            used = {name: value for name, value in values.items() if f":{name}" in statement}
            connection.execute(text(statement), used)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # Autovacuum does it elsewhere, after a while.
        connection.execute(text(f"VACUUM ANALYZE {_TABLES}"))
    engine.dispose()


def main() -> None:
    """Fill a database, and say how long that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", required=True, help="one with our tables, all empty")
    parser.add_argument("--workflow-class", default="Shipment", help="what the workflows are called")
    parser.add_argument("--hero-class", default="Parcel", help="what their heroes are called")
    parser.add_argument("--size", type=int, default=1_000_000)
    asked = parser.parse_args()
    began = time.perf_counter()
    load(asked.database, asked.size, asked.workflow_class, asked.hero_class)
    print(f"{asked.size:,} workflows in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
