"""All workflows have one table in common, and no class adds to it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Column, Integer
from sqlalchemy.orm import mapped_column

from flask_geneva import StepConfigurationError, Workflow
from flask_geneva.records.tables import workflows


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weight", mapped_column(Integer)),
        ("weight", Column(Integer)),
        ("__tablename__", "parcels"),
        ("__table_args__", ()),
        ("__mapper_args__", {}),
    ],
)
@pytest.mark.parametrize("is_mixed_in", [True, False])
def test_a_class_with_a_table_or_a_column_of_its_own_is_refused(name: str, value: Any, is_mixed_in: bool) -> None:
    columns = set(workflows.columns.keys())
    parents, body = ((type("Mixin", (), {name: value}), Workflow), {}) if is_mixed_in else ((Workflow,), {name: value})

    with pytest.raises(StepConfigurationError, match=f"HeavyFlow: '{name}' is for a table of its own"):
        type("HeavyFlow", parents, body)

    assert set(workflows.columns.keys()) == columns
