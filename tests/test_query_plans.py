"""No statement of ours reads a big table from end to end: PostgreSQL's plans are looked at among 20,000 workflows.

The gauges count every workflow, in an index.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, ClassVar

import pytest
from flask import Flask
from sqlalchemy import select, text, update

from benchmarks.scale_loader import load
from flask_geneva import IterableStep, Workflow, removed_step, resumable_step, step
from flask_geneva.engine.executor import execute
from flask_geneva.engine.run import Run
from flask_geneva.engine.runtime import current_runtime
from flask_geneva.housekeeping.dead_executions import Death
from flask_geneva.housekeeping.run import recover_job, run_housekeeping
from flask_geneva.insights.gauges import read_gauges
from flask_geneva.insights.listing import Selection, count_of, known_class_names, known_step_names, page_of
from flask_geneva.records.tables import TABLES, step_executions, workflows
from flask_geneva.states import OPEN_STEP_STATES, WorkflowState
from flask_geneva.webhooks.delivery_log import delete_older_than, latest, webhook_deliveries
from tests.harness.models import Order, db
from tests.harness.plans import plans_of

pytestmark = pytest.mark.databases("postgresql")

SIZE = 20_000

# One a minute for two weeks, until now, of which a few failed.
DELIVERIES = f"""
INSERT INTO geneva_webhook_deliveries (source, outcome, http_status, received_at)
SELECT 'shop', CASE WHEN n % 5000 = 0 THEN 'failed' ELSE 'delivered' END, 202, now() - n * interval '1 minute'
FROM generate_series({SIZE}, 1, -1) n
"""


class MassFlow(Workflow[Order]):
    """The class of all of them; its steps are those that the loader writes."""

    ends: ClassVar[list[str]] = []

    @step
    def pack(self) -> None:
        if self.ends:
            getattr(self, self.ends.pop())()

    @step(wait=3600)
    def deliver(self) -> None:
        if self.ends:
            getattr(self, self.ends.pop())()

    unpack = removed_step()

    @step(wait_for="received", deadline=3600)
    def confirm(self) -> None: ...

    @resumable_step(max_iterations=2)
    def count(self, it: IterableStep) -> None:
        for _ in it.iterate_over(range(3)):
            pass


class MassCallerFlow(Workflow[Order]):
    """Signals a workflow of the crowd from a step."""

    target_id: ClassVar[int]

    @step
    def call(self) -> None:
        db.session.get_one(Workflow, self.target_id).signal("received", idempotency_key="once")


@pytest.fixture
def crowd(queueing_app: Flask, database_url: str) -> Flask:
    """An application with many workflows: the first hundred are parked, and those at 2 to 9 of each hundred wait."""
    # Emptied by DELETE, as between tests, the indexes would keep the size that they had.
    db.session.execute(text(f"TRUNCATE {', '.join(table.name for table in (*TABLES, webhook_deliveries))}"))
    db.session.commit()
    load(database_url, SIZE, MassFlow.__name__, Order.__name__)
    columns, values = "id, state, amount, withdrawn, reviewed", "n, 'placed', 0, false, false"
    db.session.execute(text(f"INSERT INTO orders ({columns}) SELECT {values} FROM generate_series(1, {SIZE}) n"))
    db.session.execute(text(f"SELECT setval('orders_id_seq', {SIZE})"))
    db.session.execute(text(DELIVERIES))
    db.session.commit()
    analyze("geneva_webhook_deliveries")
    return queueing_app


def analyze(table: str) -> None:
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"VACUUM ANALYZE {table}"))


def whole_tables_read(act: Callable[[], object]) -> list[str]:
    """The statements, with their plans, that read one of our tables from end to end."""
    plans = plans_of(act)
    assert plans
    return [plan for plan in plans if "Seq Scan on geneva" in plan]


def run(workflow_id: int, **options: Any) -> bool:
    """Run what is open as its job does, whenever it is due; False when nothing is."""
    is_open = (step_executions.c.workflow_id == workflow_id, step_executions.c.state.in_(OPEN_STEP_STATES))
    execution_id = db.session.execute(select(step_executions.c.id).where(*is_open)).scalar_one_or_none()
    db.session.commit()
    if execution_id is None:
        return False
    execute(Run(current_runtime(), db.session(), **{"ignores_time": True, **options}), execution_id)
    return True


def id_of(number: int) -> int:
    """The id of one of the workflows of the crowd, by its number."""
    first: int = db.session.execute(select(workflows.c.id).order_by(workflows.c.id).limit(1)).scalar_one()
    return first + number - 1


def flow(number: int) -> Workflow[Any]:
    """The workflow itself."""
    return db.session.get_one(Workflow, id_of(number))


def test_the_life_of_a_workflow(crowd: Flask) -> None:
    def live() -> None:
        order = Order()
        db.session.add(order)
        created_id = MassFlow.create(hero=order).id
        db.session.commit()
        MassFlow.ends[:] = ["no_such_verb", "reattempt"]
        run(created_id, runs_ahead=False)
        run(created_id, runs_ahead=False)
        workflow = db.session.get_one(Workflow, created_id)
        assert workflow.state == "paused"
        workflow.resume()
        db.session.commit()
        run(created_id)
        workflow = db.session.get_one(Workflow, created_id)
        assert workflow.next_step_name == "confirm"
        for _ in range(2):
            workflow.signal("received", {"n": 1}, idempotency_key="once")
        while run(created_id, ignores_limits=False):
            pass
        assert db.session.get_one(Workflow, created_id).state == "finished"

    assert whole_tables_read(live) == []


def test_finding_workflows(crowd: Flask) -> None:
    def find() -> None:
        order = db.session.get_one(Order, 105)
        assert MassFlow.ongoing_for(order) is not None
        assert MassFlow.get_or_create(hero=order)[1] is False
        with pytest.raises(Exception, match="ongoing"):
            MassFlow.create(hero=order)
        assert db.session.scalars(select(MassFlow).where(MassFlow.hero_is(order))).all()
        assert MassFlow.removed_steps_in_flight() == {}

    assert whole_tables_read(find) == []


def test_looking_at_a_workflow(crowd: Flask) -> None:
    def look() -> None:
        for number in (1, 104, 150):
            workflow = flow(number)
            assert workflow.explain()
            assert workflow.step_executions
            assert len(workflow.signals) in (0, 1)
            assert workflow.execution_history[-1].workflow is workflow
            for execution in workflow.step_executions:
                assert not any((execution.signal, execution.continues_from, execution.successor))

    assert whole_tables_read(look) == []


def test_the_verbs(crowd: Flask) -> None:
    def act() -> None:
        for number in (104, 1):
            workflow = flow(number)
            workflow.pause()
            workflow.signal("received", idempotency_key="early")
            workflow.resume()
            workflow.pause()
            workflow.resume_at("pack")
            workflow.skip()
            workflow.cancel()
            db.session.commit()
        MassCallerFlow.target_id = id_of(2)
        caller = MassCallerFlow.create(hero=db.session.get_one(Order, 1))
        caller_id = caller.id
        db.session.commit()
        run(caller_id)

    assert whole_tables_read(act) == []


def test_housekeeping(crowd: Flask) -> None:
    def keep_house() -> None:
        run_housekeeping(current_runtime())
        job_id = flow(203).current_execution.job_id
        execution_id = flow(203).current_execution.id
        recover_job(current_runtime(), job_id, execution_id, Death(cause="killed"), also_scheduled=True)

    damage(datetime.now(UTC))

    assert whole_tables_read(keep_house) == []


def damage(now: datetime) -> None:
    """Give housekeeping something of each kind to do."""
    long_ago = now - timedelta(hours=2)
    change_open(302, state="completed")
    change_open(303, state="in_progress", started_at=long_ago)
    change(303, state="performing")
    change(304, state="canceled")
    change_open(3, step_name="unpack")
    change_open(4, deadline_at=long_ago)
    for number in range(350, 380):
        change(number, transitioned_at=now - timedelta(days=60))
    db.session.commit()


def change(number: int, **columns: Any) -> None:
    db.session.execute(update(workflows).where(workflows.c.id == id_of(number)).values(**columns))


def change_open(number: int, **columns: Any) -> None:
    is_open = (step_executions.c.workflow_id == id_of(number), step_executions.c.state.in_(OPEN_STEP_STATES))
    db.session.execute(update(step_executions).where(*is_open).values(**columns))


READING = (
    "list",
    "list --before {9000}",
    "list --class MassFlow",
    "list --class MassFlow --state paused",
    "list --class MassCallerFlow",
    "list --class GoneFlow",
    "list --state paused",
    "list --state ready --state performing --state paused",
    "list --step confirm",
    "list --step count",
    "list --step nowhere",
    "list --hero Order:500",
    "list --hero 500",
    "list --older-than 3d",
    "list --older-than 28d",
    "list --newer-than 1h",
    "list --newer-than 20d --older-than 19d --state canceled",
    "show {150}",
    "show {104}",
    "check",
    "stats",
)
ACTING = (
    "pause {104} {1}",
    "signal {5} received",
    "cancel --class MassFlow --step confirm --older-than 28d --yes",
    "resume --state paused --yes",
    "housekeeping",
)


@pytest.mark.parametrize("commands", [READING, ACTING], ids=["reading", "acting"])
def test_the_command_line(crowd: Flask, commands: tuple[str, ...]) -> None:
    first = id_of(1)
    db.session.rollback()

    found = {command: whole_tables_read(lambda each=command: invoke(crowd, each, first)) for command in commands}

    assert {command: plans for command, plans in found.items() if plans} == {}


def invoke(app: Flask, command: str, first_id: int) -> None:
    words = [str(first_id - 1 + int(word[1:-1])) if word[0] == "{" else word for word in command.split()]
    with app.app_context():
        result = app.test_cli_runner().invoke(args=["geneva", *words])
    assert result.exit_code in (0, 1), result.output


def test_the_dashboard_and_its_metrics(crowd: Flask) -> None:
    def look() -> None:
        read_gauges(db.session(), current_runtime())
        for selection in (
            Selection(search="500"),
            Selection(search="Order:500"),
            Selection(class_name="MassCallerFlow"),
        ):
            page_of(db.session(), selection)
        count_of(db.session(), Selection(states=(WorkflowState.PAUSED,)))
        assert known_class_names(db.session(), current_runtime())
        assert known_step_names(db.session(), current_runtime())

    assert whole_tables_read(look) == []


def test_the_log_of_webhook_deliveries(crowd: Flask) -> None:
    def look() -> None:
        for outcome, source in product((None, "failed"), (None, "shop", "other")):
            latest(db.session(), source=source, outcome=outcome, limit=50)
        delete_older_than(db.session(), datetime.now(UTC) - timedelta(days=13), 100)

    assert whole_tables_read(look) == []
