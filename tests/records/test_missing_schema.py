"""A database that lags behind the code says which command is missing."""

from __future__ import annotations

import pytest
from flask import Flask
from sqlalchemy import text

from flask_geneva import MigrationMissing, Workflow, step
from tests.harness.models import Order, db


class LateSchemaFlow(Workflow[Order]):
    """One step."""

    @step
    def only(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("change", ["DROP TABLE {}", "ALTER TABLE {} RENAME COLUMN next_step_name TO renamed"])
def test_a_missing_table_or_column_names_the_commands_that_add_it(app: Flask, change: str) -> None:
    # INS-08
    order = Order()
    db.session.add(order)
    db.session.commit()
    for table in ("geneva_signals", "geneva_step_executions", "geneva_workflows")[-1 if "ALTER" in change else 0 :]:
        db.session.execute(text(change.format(table)))
    db.session.commit()

    with pytest.raises(MigrationMissing, match=r"geneva_workflows.*flask geneva install.*flask db upgrade"):
        LateSchemaFlow.create(hero=order)

    db.session.rollback()
    if "ALTER" in change:
        db.session.execute(text("ALTER TABLE geneva_workflows RENAME COLUMN renamed TO next_step_name"))
        db.session.commit()


def test_an_error_about_another_table_stays_what_it_is(app: Flask) -> None:
    with pytest.raises(Exception, match="no_such_thing") as refused:
        db.session.execute(text("SELECT 1 FROM no_such_thing"))

    assert not isinstance(refused.value, MigrationMissing)
