"""The fixtures that the whole suite stands on; see ``tests/harness`` for what they are made of."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, has_app_context
from flask_sqlalchemy import SQLAlchemy

from flask_geneva import Geneva
from tests.harness import apps
from tests.harness.absence import ServerAbsent, is_ci, leave_out, reasons
from tests.harness.counting import Traffic, counting_on
from tests.harness.databases import (
    SQLITE,
    ScratchDatabase,
    create_missing_tables,
    create_scratch,
    drop_scratch,
    kinds,
)
from tests.harness.models import db as the_db
from tests.harness.models import written_down
from tests.harness.redis_servers import TestRedis, machine_redis, own_redis
from tests.harness.workers import Workers, workers_on

REDIS = pytest.StashKey[set[str]]()
REDIS_USED = "redis"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        action="append",
        choices=["sqlite", "postgresql", "mariadb", "mysql"],
        help="run on this kind only (repeatable)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "databases(*kinds): run this test on these kinds of database only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database_kind" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("databases")
    wanted = metafunc.config.getoption("--database") or kinds()
    chosen = [kind for kind in wanted if marker is None or kind in marker.args]
    metafunc.parametrize("database_kind", chosen, indirect=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    figures = sorted({f"{name}: {value}" for report in reports for name, value in report.user_properties})
    left_out = reasons(terminalreporter.stats.get("skipped", []))
    servers = [f"Redis: {described}" for described in sorted(config.stash.get(REDIS, set()))]
    write_section(terminalreporter, "figures", figures)
    write_section(terminalreporter, "servers", servers)
    write_section(
        terminalreporter,
        "left out for want of a server",
        [f"{number} tests: {reason}" for reason, number in left_out.items()],
    )


def write_section(terminalreporter: pytest.TerminalReporter, title: str, lines: list[str]) -> None:
    if lines:
        terminalreporter.section(title)
    for line in lines:
        terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that sums up, where tests run in several, which servers this one used."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[REDIS_USED] = sorted(session.config.stash.get(REDIS, set()))


def pytest_testnodedown(node: Any) -> None:
    """Hear what a process of several used; one that crashed says nothing."""
    used = getattr(node, "workeroutput", {}).get(REDIS_USED, [])
    node.config.stash.setdefault(REDIS, set()).update(used)


@pytest.fixture(autouse=True)
def audible_loggers() -> None:
    """Undo what the env.py of a Flask-Migrate project did in an earlier test: it disables loggers that exist."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("flask_geneva") and isinstance(logger, logging.Logger):
            logger.disabled = False


@pytest.fixture(autouse=True)
def no_context_left_behind() -> Iterator[None]:
    """Blame the test that leaves an application context behind, not the next one, which would work in it."""
    yield
    assert not has_app_context(), "this test left an application context behind"


@pytest.fixture
def database_kind(request: pytest.FixtureRequest) -> str:
    """The kind of database of this run of the test."""
    return str(request.param)


@pytest.fixture(scope="session")
def scratch_database() -> Iterator[Callable[[str], ScratchDatabase]]:
    """Gives the scratch database of a kind, made when it is first asked for and dropped when the suite is over."""
    made: dict[str, ScratchDatabase | ServerAbsent] = {}

    def of(kind: str) -> ScratchDatabase:
        if kind not in made:
            try:
                made[kind] = create_scratch(kind)
            except ServerAbsent as error:
                made[kind] = error
        found = made[kind]
        if isinstance(found, ServerAbsent):
            leave_out(found)
        return found

    yield of

    for scratch in made.values():
        if isinstance(scratch, ScratchDatabase):
            drop_scratch(scratch)


@pytest.fixture
def database_url(database_kind: str, tmp_path: Path, scratch_database: Callable[[str], ScratchDatabase]) -> str:
    """The address of a database without rows, on each kind in turn; it may have the tables of earlier tests."""
    if database_kind == SQLITE:
        return f"sqlite:///{tmp_path / 'test.db'}"
    scratch = scratch_database(database_kind)
    scratch.empty()
    return scratch.url.render_as_string(hide_password=False)


@pytest.fixture
def blank_database_url(database_kind: str, tmp_path: Path) -> Iterator[str]:
    """The address of a database without tables, on each kind in turn; for tests of migrations."""
    if database_kind == SQLITE:
        yield f"sqlite:///{tmp_path / 'blank.db'}"
        return
    try:
        scratch = create_scratch(database_kind)
    except ServerAbsent as error:
        leave_out(error)
    yield scratch.url.render_as_string(hide_password=False)
    drop_scratch(scratch)


@pytest.fixture(scope="session")
def redis_server(pytestconfig: pytest.Config) -> Iterator[TestRedis]:
    """The machine's Redis, else an embedded one (in CI the machine's has to be there)."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(machine_redis())
        except ServerAbsent as error:
            if is_ci():
                leave_out(error)
            server = stack.enter_context(own_redis())
        pytestconfig.stash.setdefault(REDIS, set()).add(server.described)
        yield server


@pytest.fixture
def redis_url(redis_server: TestRedis) -> str:
    """The address of an empty Redis database that nobody else uses."""
    redis_server.flush()
    return redis_server.url


@pytest.fixture
def app_config() -> dict[str, Any]:
    """What the applications of a test are configured with; a module or a test overrides it."""
    return {}


@pytest.fixture
def build_app(database_url: str, app_config: dict[str, Any]) -> Iterator[Callable[..., Flask]]:
    """Builds applications on the database of the test, with their tables: ``build_app(redis_url, **config)``."""
    with ExitStack() as stack:

        def build(redis_url: str | None = None, **config: Any) -> Flask:
            app = apps.make_app(database_url, redis_url, **{**app_config, **config})
            stack.callback(_dispose, app)
            with app.app_context():
                create_missing_tables(the_db.engine, the_db.metadata)
            return app

        yield build


@pytest.fixture
def app(build_app: Callable[..., Flask]) -> Iterator[Flask]:
    """An application that writes rows and sends nothing to Redis, in its context."""
    app = build_app()
    with app.app_context():
        yield app


@pytest.fixture
def queueing_app(build_app: Callable[..., Flask], redis_url: str) -> Iterator[Flask]:
    """An application that sends its jobs to Redis, in its context."""
    app = build_app(redis_url)
    with app.app_context():
        yield app


@pytest.fixture
def db() -> SQLAlchemy:
    """The SQLAlchemy extension of the applications of the tests."""
    return the_db


@pytest.fixture
def extension() -> Geneva:
    """The extension object of the applications of the tests (``geneva`` is the fixture of the library's own plugin)."""
    return apps.geneva


@pytest.fixture
def ledger() -> Callable[[Any], list[str]]:
    """Reads the ledger: ``ledger(workflow)`` are the committed marks of its steps, in order."""
    return lambda workflow: written_down(workflow.id)


@pytest.fixture
def counting() -> Callable[[], AbstractContextManager[Traffic]]:
    """Counts statements and commits: ``with counting() as traffic: ...``, then ``traffic.commits``."""
    return lambda: counting_on(the_db.engine)


@pytest.fixture
def burst(queueing_app: Flask) -> Callable[..., None]:
    """Runs an RQ worker in this process until its queues are empty; without names, the default queue."""
    return apps.burst


@pytest.fixture
def workers(database_url: str, redis_url: str, queueing_app: Flask, tmp_path: Path) -> Iterator[Workers]:
    """Starts real worker processes, ended with the test."""
    with workers_on(database_url, redis_url, tmp_path) as workers:
        yield workers


def _dispose(app: Flask) -> None:
    with app.app_context():
        for engine in the_db.engines.values():
            engine.dispose()
