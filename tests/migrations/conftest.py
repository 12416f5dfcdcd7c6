"""Projects on a database without tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.migrations.projects import Project, logging_kept, make_project
from tests.migrations.revised import bodies, prepare


@pytest.fixture
def new_project(tmp_path: Path) -> Iterator[Callable[..., Project]]:
    """Makes projects: ``new_project(database_url, convention=True, render_as_batch=True)``."""
    made: list[Project] = []

    def make(database_url: str = "sqlite://", **options: Any) -> Project:
        folder = tmp_path / f"project-{len(made)}"
        folder.mkdir()
        made.append(make_project(folder, database_url, **options))
        return made[-1]

    with logging_kept():
        yield make
    for project in made:
        project.engine.dispose()


@pytest.fixture
def project(new_project: Callable[..., Project], blank_database_url: str) -> Project:
    """A project after ``flask db init``, on each kind of database in turn."""
    project = new_project(blank_database_url)
    project.flask_db("init")
    return project


@pytest.fixture
def revised_project(
    new_project: Callable[..., Project], blank_database_url: str, request: pytest.FixtureRequest
) -> Iterator[Project]:
    """A project in its context, with our revisions, none of which was run; the parameter is for Flask-Migrate."""
    project = new_project(blank_database_url, **getattr(request, "param", {}))
    prepare(project)
    bodies.clear()
    with project.app.app_context():
        yield project
        project.db.session.remove()
