"""A JSON column gives back what was written, on every database and whatever JSON library the app's engine uses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    insert,
    inspect,
    null,
    select,
    update,
)
from sqlalchemy.orm import DeclarativeBase, Session

from flask_geneva.records.json_column import JSONColumn
from flask_geneva.records.values import decode, encode
from tests.records.samples import SAMPLES, same, values

AWKWARD = {"quote": 'it\'s \\ "here" %s :x', "ü": None}


class JSONBase(DeclarativeBase):
    pass


documents = Table(
    "json_documents",
    JSONBase.metadata,
    Column("id", Integer, primary_key=True),
    Column("payload", JSONColumn(none_as_null=False)),
    Column("details", JSONColumn(none_as_null=True)),
)


class Document(JSONBase):
    __table__ = documents


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_engine(database_url)
    JSONBase.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    with engine.begin() as connection:
        yield connection


def through_database(connection: Connection, value: Any) -> Any:
    connection.execute(documents.delete())
    connection.execute(insert(documents), {"payload": encode(value)})
    return decode(connection.scalar(select(documents.c.payload)), None)


def test_every_value_comes_back(connection: Connection) -> None:
    # DBS-02, DBS-04
    changed = [value for value in SAMPLES if not same(through_database(connection, value), value)]

    assert changed == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=values)
def test_any_nesting_of_values_comes_back(connection: Connection, value: Any) -> None:
    assert same(through_database(connection, value), value)


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"$": inner}])
def test_a_deep_value_comes_back(connection: Connection, wrap: Callable[[Any], Any]) -> None:
    value: Any = 1
    for _ in range(100):
        value = wrap(value)

    assert same(through_database(connection, value), value)


def test_none_is_json_null_or_sql_null_as_the_column_says(connection: Connection) -> None:
    connection.execute(insert(documents), {"payload": None, "details": None})

    unset = select(documents.c.payload.is_(null()), documents.c.details.is_(null()))
    assert tuple(connection.execute(unset).one()) == (False, True)
    assert tuple(connection.execute(select(documents.c.payload, documents.c.details)).one()) == (None, None)


def test_the_orm_stores_a_none_that_was_set(engine: Engine) -> None:
    with Session(engine) as session:
        session.add(Document(payload=None, details=None))
        session.commit()

        assert session.scalar(select(Document.id).where(Document.payload.is_not(null()), Document.details.is_(null())))


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), ({"a": 0}, {"a": False}), ([], {})])
def test_a_change_of_type_alone_is_stored(engine: Engine, before: Any, after: Any) -> None:
    with Session(engine) as session:
        document = Document(payload=encode(before))
        session.add(document)
        session.commit()

        document.payload = encode(after)
        session.commit()

        assert same(decode(session.scalar(select(documents.c.payload)), None), after)


def test_a_value_can_be_written_with_update(connection: Connection) -> None:
    connection.execute(insert(documents), {"payload": 1})

    connection.execute(update(documents).values(payload={"ü": None}, details=AWKWARD))

    assert connection.execute(select(documents.c.payload, documents.c.details)).one() == ({"ü": None}, AWKWARD)


def test_a_value_can_be_spelled_out_in_the_statement(connection: Connection) -> None:
    spelled_out = insert(documents).values(payload=AWKWARD, details=None)

    statement = spelled_out.compile(connection, compile_kwargs={"literal_binds": True})
    connection.exec_driver_sql(str(statement))

    assert connection.execute(select(documents.c.payload, documents.c.details)).one() == (AWKWARD, None)


def test_a_key_inside_can_be_asked_for(connection: Connection) -> None:
    connection.execute(insert(documents), [{"payload": {"color": "red"}}, {"payload": {"color": "blue"}}])

    red = select(documents.c.payload["color"]).where(documents.c.payload["color"].as_string() == "red")

    assert connection.scalars(red).all() == ["red"]


def test_a_subquery_and_a_returning_clause_read_the_same(connection: Connection) -> None:
    connection.execute(insert(documents), {"payload": {"a": [1.5]}})

    inner = select(documents.c.payload).subquery()

    assert connection.scalar(select(inner.c.payload)) == {"a": [1.5]}
    if connection.dialect.update_returning:
        statement = update(documents).values(payload={"b": 2.5}).returning(documents.c.payload)
        assert connection.scalar(statement) == {"b": 2.5}


def test_the_json_library_of_the_engine_changes_nothing(database_url: str, engine: Engine) -> None:
    def refuse(_value: Any) -> str:
        raise TypeError("not JSON serializable")

    own = create_engine(
        database_url, json_serializer=refuse, json_deserializer=partial(json.loads, parse_float=Decimal)
    )
    with own.begin() as connection:
        assert same(through_database(connection, {"rate": 19.5}), {"rate": 19.5})
    own.dispose()


def test_the_column_is_of_the_json_type_of_the_database(engine: Engine) -> None:
    columns = {column["name"]: column["type"] for column in inspect(engine).get_columns("json_documents")}

    found = type(columns["payload"]).__name__
    assert found in {"postgresql": ["JSONB"], "sqlite": ["JSON"]}.get(engine.dialect.name, ["JSON", "LONGTEXT"])


def test_the_column_never_shows_up_in_a_comparison_of_the_schema(connection: Connection) -> None:

    metadata = MetaData()
    documents.to_metadata(metadata)

    def is_ours(name: str | None, kind: str, _parents: Any) -> bool:
        return kind != "table" or name == documents.name

    context = MigrationContext.configure(connection, opts={"compare_type": True, "include_name": is_ours})
    assert compare_metadata(context, metadata) == []


def test_sql_null_can_be_written_to_either_column(connection: Connection) -> None:
    connection.execute(insert(documents).values(payload=null(), details=JSON.NULL))

    unset = select(documents.c.payload.is_(null()), documents.c.details.is_(null()))
    assert tuple(connection.execute(unset).one()) == (True, False)
