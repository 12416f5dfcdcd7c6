"""Several applications in one process, nested contexts, blueprints, several databases of one application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Blueprint, Flask, current_app
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import String, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_geneva import Geneva, Workflow, events, step
from flask_geneva.records.tables import workflows
from flask_geneva.testing import speedrun
from flask_geneva.worker.running import run_worker
from tests.harness.redis_servers import TestRedis, own_redis


class TenantFlow(Workflow[Any]):
    """Greets its hero, in whatever application it is."""

    @step
    def greet(self) -> None:
        self.hero.greeting = f"hello from {current_app.name}"

    @step(wait_for="go")
    def wave(self) -> None:
        self.hero.greeting += ", bye"


class Tenant:
    """An application with a database object and models of its own; all tenants share one ``Geneva``."""

    def __init__(self, name: str, geneva: Geneva, database_url: str, redis_url: str, **config: Any) -> None:
        class Base(DeclarativeBase):
            """The tenant's own models."""

        self.db = SQLAlchemy(model_class=Base)

        class Guest(self.db.Model):  # type: ignore[name-defined,misc]
            __tablename__ = "tenant_guests"
            id: Mapped[int] = mapped_column(primary_key=True)
            greeting: Mapped[str] = mapped_column(String(100), default="")

        class Visitor(self.db.Model):  # type: ignore[name-defined,misc]
            __bind_key__ = "annex"
            __tablename__ = "tenant_visitors"
            id: Mapped[int] = mapped_column(primary_key=True)
            greeting: Mapped[str] = mapped_column(String(100), default="")

        self.Guest, self.Visitor = Guest, Visitor
        self.app = Flask(name)
        self.app.config.from_mapping(SQLALCHEMY_DATABASE_URI=database_url, GENEVA_REDIS_URL=redis_url, **config)
        self.db.init_app(self.app)
        geneva.init_app(self.app, self.db)

    def create(self, model: Any = None) -> Workflow[Any]:
        """Create a workflow in the context that is there, and commit."""
        guest = (model or self.Guest)()
        self.db.session.add(guest)
        workflow = TenantFlow.create(hero=guest)
        self.db.session.commit()
        return workflow

    def count(self) -> int:
        """How many workflows this tenant's database has."""
        with self.app.app_context():
            return len(self.db.session.execute(select(workflows.c.id)).all())


@pytest.fixture
def geneva() -> Geneva:
    """The object that all applications share."""
    return Geneva()


@pytest.fixture
def second_redis() -> Iterator[TestRedis]:
    """Another Redis database than ``redis_url``."""
    with own_redis() as server:
        yield server


@pytest.fixture
def tenants(
    geneva: Geneva, blank_database_url: str, redis_url: str, second_redis: TestRedis, tmp_path: Path
) -> Iterator[tuple[Tenant, Tenant]]:
    """Two applications: one on the database of the test, one on SQLite, each with a Redis of its own."""
    annex = {"SQLALCHEMY_BINDS": {"annex": f"sqlite:///{tmp_path / 'annex.db'}"}}
    east = Tenant("east", geneva, blank_database_url, redis_url, **annex)
    west = Tenant(
        "west", geneva, f"sqlite:///{tmp_path / 'west.db'}", second_redis.url, GENEVA_URL_PREFIX="/flows", **annex
    )
    for tenant in (east, west):
        with tenant.app.app_context():
            tenant.db.create_all()
    yield east, west
    for tenant in (east, west):
        with tenant.app.app_context():
            for engine in tenant.db.engines.values():
                engine.dispose()


def jobs_of(geneva: Geneva, tenant: Tenant) -> int:
    with tenant.app.app_context():
        return len(geneva.queue())


def test_each_application_has_its_own_rows_and_its_own_jobs(geneva: Geneva, tenants: tuple[Tenant, Tenant]) -> None:
    east, west = tenants
    with east.app.app_context():
        east.create()
        east.create()
    with west.app.app_context():
        west.create()

    assert (east.count(), west.count()) == (2, 1)
    assert (jobs_of(geneva, east), jobs_of(geneva, west)) == (2, 1)


def test_a_context_within_another_is_that_of_its_own_application(
    geneva: Geneva, tenants: tuple[Tenant, Tenant]
) -> None:
    east, west = tenants
    with east.app.app_context():
        guest = east.Guest()
        east.db.session.add(guest)
        outer = TenantFlow.create(hero=guest)
        with west.app.app_context():
            inner = west.create()
            assert type(inner.hero) is west.Guest
            assert TenantFlow.ongoing_for(inner.hero) is inner
            assert jobs_of(geneva, west) == 1
        # What is open outside is neither committed nor lost by the commit inside.
        assert jobs_of(geneva, east) == 0
        assert TenantFlow.ongoing_for(guest) is outer
        east.db.session.commit()
        assert geneva.queue().name == "geneva"

    assert (east.count(), west.count()) == (1, 1)
    assert (jobs_of(geneva, east), jobs_of(geneva, west)) == (1, 1)


def test_a_worker_and_housekeeping_of_one_application_leave_the_other_alone(
    geneva: Geneva, tenants: tuple[Tenant, Tenant]
) -> None:
    east, west = tenants
    greetings = {}
    for tenant in tenants:
        with tenant.app.app_context():
            tenant.create()

    run_worker(east.app, [], burst=True, fork=False)

    with west.app.app_context():
        assert geneva.run_housekeeping().stuck_scheduled_recovered == 0
    for tenant in tenants:
        with tenant.app.app_context():
            greetings[tenant.app.name] = tenant.db.session.scalars(select(tenant.Guest.greeting)).one()
    assert greetings == {"east": "hello from east", "west": ""}
    assert jobs_of(geneva, west) == 1


def test_events_say_of_which_application_they_are(tenants: tuple[Tenant, Tenant]) -> None:
    _, west = tenants
    heard: list[str] = []

    def hear(sender: Flask, **facts: Any) -> None:
        heard.append(sender.name)

    with events.workflow_created.connected_to(hear, west.app):
        for tenant in tenants:
            with tenant.app.app_context():
                tenant.create()

    assert heard == ["west"]


def test_two_applications_that_share_a_database_object_send_each_job_once(
    geneva: Geneva, tenants: tuple[Tenant, Tenant], redis_url: str
) -> None:
    east, _ = tenants
    twin = Flask("twin")
    twin.config.from_mapping(
        SQLALCHEMY_DATABASE_URI=east.app.config["SQLALCHEMY_DATABASE_URI"],
        SQLALCHEMY_BINDS=east.app.config["SQLALCHEMY_BINDS"],
        GENEVA_REDIS_URL=redis_url,
        GENEVA_QUEUE="twin",
    )
    east.db.init_app(twin)
    geneva.init_app(twin, east.db)

    with twin.app_context():
        east.create()
        lengths = len(geneva.queue()), len(geneva.queue("geneva"))
        for engine in east.db.engines.values():
            engine.dispose()

    assert lengths == (1, 0)


def test_each_application_has_the_routes_below_its_own_prefix(tenants: tuple[Tenant, Tenant]) -> None:
    east, west = tenants

    def prefixes(tenant: Tenant) -> set[str]:
        rules = [rule.rule for rule in tenant.app.url_map.iter_rules() if "webhooks" in rule.rule]
        return {rule.split("/")[1] for rule in rules}

    assert (prefixes(east), prefixes(west)) == ({"geneva"}, {"flows"})


def test_a_workflow_is_created_and_signalled_in_views_of_a_blueprint(
    geneva: Geneva, tenants: tuple[Tenant, Tenant]
) -> None:
    east, _ = tenants
    guests = Blueprint("guests", __name__, url_prefix="/guests")

    @guests.post("/")
    def arrive() -> str:
        return str(east.create().id)

    @guests.post("/<int:workflow_id>/wave")
    def wave(workflow_id: int) -> str:
        workflow = east.db.get_or_404(TenantFlow, workflow_id)
        workflow.signal("go")
        east.db.session.commit()
        return workflow.explain()

    east.app.register_blueprint(guests)
    client = east.app.test_client()
    workflow_id = client.post("/guests/").text
    run_worker(east.app, [], burst=True, fork=False)

    assert client.post(f"/guests/{workflow_id}/wave").status_code == 200
    run_worker(east.app, [], burst=True, fork=False)

    with east.app.app_context():
        assert east.db.session.scalars(select(east.Guest.greeting)).one() == "hello from east, bye"


def test_a_hero_may_be_kept_in_another_database_than_the_workflows(tenants: tuple[Tenant, Tenant]) -> None:
    for tenant in tenants:
        with tenant.app.app_context():
            workflow = tenant.create(tenant.Visitor)
            hero = workflow.hero
            workflow.signal("go")
            speedrun(workflow)

            assert type(hero) is tenant.Visitor
            assert tenant.db.session.scalars(select(tenant.Visitor.greeting)).one().endswith(", bye")
            assert workflow.state == "finished"
            tenant.db.session.delete(hero)
            tenant.db.session.commit()


def test_and_is_looked_for_there_between_the_steps_of_one_job(tenants: tuple[Tenant, Tenant]) -> None:
    for tenant in tenants:
        for goes in (False, True):
            with tenant.app.app_context():
                workflow = tenant.create(tenant.Visitor)
                workflow.signal("go")
                tenant.db.session.commit()
                visitor_id, workflow_id = workflow.hero.id, workflow.id
            with step_deletes(tenant, visitor_id if goes else None):
                run_worker(tenant.app, [], burst=True, fork=False)
            with tenant.app.app_context():
                assert tenant.db.session.get_one(TenantFlow, workflow_id).state == ("canceled" if goes else "finished")


@contextmanager
def step_deletes(tenant: Tenant, visitor_id: int | None) -> Iterator[None]:
    """Let the first step that begins within the block delete a visitor."""

    def delete_it(sender: Flask, **facts: Any) -> None:
        if facts["step_name"] == "greet" and visitor_id is not None:
            tenant.db.session.delete(tenant.db.session.get_one(tenant.Visitor, visitor_id))

    with events.step_started.connected_to(delete_it, tenant.app):
        yield
