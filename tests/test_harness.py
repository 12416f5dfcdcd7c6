"""The harness itself: the databases and the Redis that the other tests stand on."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, func, insert, inspect, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from sample_app import embedded_redis
from tests.harness.absence import ServerAbsent, leave_out
from tests.harness.databases import ScratchDatabase, create_missing_tables, create_scratch, drop_scratch
from tests.harness.redis_servers import OWNER_KEY, TestRedis, machine_redis

ROOT = Path(__file__).parents[1]
SERVERS = ("postgresql", "mariadb", "mysql")


@pytest.mark.databases(*SERVERS)
def test_a_scratch_database_is_empty_for_each_test(
    database_kind: str, scratch_database: Callable[[str], ScratchDatabase]
) -> None:
    scratch = scratch_database(database_kind)
    metadata = MetaData()
    table = Table("harness_rows", metadata, Column("id", Integer, primary_key=True))
    engine = create_engine(scratch.url, poolclass=NullPool)
    create_missing_tables(engine, metadata)
    with engine.begin() as connection:
        connection.execute(insert(table), [{"id": 1}, {"id": 2}])

    scratch.empty()

    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(table)) == 0
    metadata.drop_all(engine)


def test_a_blank_database_has_no_tables(blank_database_url: str) -> None:
    engine = create_engine(blank_database_url, poolclass=NullPool)

    assert inspect(engine).get_table_names() == []


@pytest.mark.databases(*SERVERS)
def test_a_dropped_scratch_database_is_gone(database_kind: str) -> None:
    scratch = create_scratch(database_kind)
    engine = create_engine(scratch.url, poolclass=NullPool)
    engine.connect().close()

    drop_scratch(scratch)

    with pytest.raises(OperationalError, match=r"Unknown database|does not exist"):
        engine.connect()


def test_the_redis_of_the_tests_is_empty_but_for_the_mark_that_it_is_ours(
    redis_url: str, redis_server: TestRedis
) -> None:
    with contextlib.closing(redis.Redis.from_url(redis_url)) as client:
        assert client.keys() == [OWNER_KEY.encode()]
        assert client.get(OWNER_KEY) == redis_server.owner.encode()


def test_two_runs_at_once_get_two_redis_databases(redis_server: TestRedis) -> None:
    if redis_server.embedded:
        pytest.skip("an embedded Redis belongs to one run")

    with machine_redis() as another:
        assert another.url != redis_server.url


def test_a_redis_that_does_not_answer_is_reported_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENEVA_TEST_REDIS_URL", f"redis://127.0.0.1:{embedded_redis.free_port()}")

    with pytest.raises(ServerAbsent, match=r"redis: 127\.0\.0\.1"), machine_redis():
        pass


def test_a_database_server_that_does_not_answer_is_reported_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    port = embedded_redis.free_port()
    monkeypatch.setenv("GENEVA_TEST_POSTGRESQL_URL", f"postgresql+psycopg://nobody@127.0.0.1:{port}/none")

    with pytest.raises(ServerAbsent, match=f"postgresql: 127.0.0.1:{port}"):
        create_scratch("postgresql")


@pytest.mark.parametrize("imitation", [False, True], ids=["server", "imitation"])
def test_an_embedded_redis_answers_and_ends_with_its_block(imitation: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if imitation:
        monkeypatch.setattr(embedded_redis, "_servers", lambda: iter(()))

    with embedded_redis.embedded_redis() as server, contextlib.closing(redis.Redis.from_url(server.url)) as client:
        assert client.set("key", "value")
        assert client.get("key") == b"value"

    assert server.process.returncode is not None
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2].split("/")[0])))


def test_a_test_without_its_server_is_skipped_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match="no server: redis: nobody answers"):
        leave_out(ServerAbsent("redis: nobody answers"))


def test_a_test_without_its_server_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match=r"redis: nobody answers\. With CI=true it has to be there"):
        leave_out(ServerAbsent("redis: nobody answers"))


def test_what_was_left_out_is_told_at_the_end() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment["GENEVA_TEST_POSTGRESQL_URL"] = f"postgresql+psycopg://127.0.0.1:{embedded_redis.free_port()}/none"
    chosen = ["-k", "blank_database", "--database", "postgresql", "tests/test_harness.py"]

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 0
    assert "left out for want of a server" in ran.stdout
    assert re.search(
        r"^1 tests: postgresql: 127\.0\.0\.1:\d+ .* GENEVA_TEST_POSTGRESQL_URL names another$", ran.stdout, re.MULTILINE
    )
