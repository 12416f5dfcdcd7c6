"""The installer writes revisions into the application's history: the missing ones, after its head, and nothing else."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flask_geneva.errors import GenevaError
from flask_geneva.migrations.installer import VERSIONS, install_revisions, missing_revisions, read_history
from tests.migrations.projects import Project

OURS = "geneva_0001_tables.py"


@pytest.fixture
def project(new_project: Callable[..., Project], tmp_path: Path) -> Project:
    """A project after ``flask db init``, on SQLite."""
    project = new_project(f"sqlite:///{tmp_path / 'project.db'}")
    project.flask_db("init")
    return project


@pytest.fixture(autouse=True)
def first_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The revisions of the first release, which had one: what a project installs here."""
    folder = tmp_path / "first"
    folder.mkdir()
    shutil.copy(VERSIONS / OURS, folder)
    monkeypatch.setattr(Project.install, "__defaults__", (folder,))
    return folder


@pytest.fixture
def later_release(tmp_path: Path, first_release: Path) -> Path:
    """The revisions of the release that followed: one more."""
    folder = tmp_path / "later"
    shutil.copytree(first_release, folder)
    text = (folder / OURS).read_text().replace("geneva_0001", "geneva_0002")
    (folder / "geneva_0002_more.py").write_text(text.replace("down_revision = None", 'down_revision = "geneva_0001"'))
    return folder


def parent_of(file: Path) -> str:
    found = re.search(r"^down_revision = (.+)$", file.read_text(), flags=re.MULTILINE)
    assert found is not None
    return found[1]


def test_in_a_project_without_revisions_ours_is_the_first(project: Project) -> None:
    written = project.install()

    assert written == [project.migrations / "versions" / OURS]
    assert parent_of(written[0]) == "None"
    assert read_history(project.migrations).heads == ("geneva_0001",)


def test_ours_follow_the_head_of_the_application(project: Project) -> None:
    project.flask_db("revision", "--rev-id", "app_1")
    project.flask_db("revision", "--rev-id", "app_2")

    (written,) = project.install()

    assert parent_of(written) == '"app_2"'
    assert "Revises: app_2\n" in written.read_text()
    assert read_history(project.migrations).heads == ("geneva_0001",)


def test_the_application_goes_on_after_ours(project: Project) -> None:
    project.install()

    project.flask_db("revision", "--rev-id", "app_1")

    assert read_history(project.migrations).heads == ("app_1",)


def test_installing_again_writes_nothing(project: Project) -> None:
    # INS-02
    (file,) = project.install()
    before = file.read_text()

    assert project.install() == []
    assert file.read_text() == before


def test_a_revision_that_was_renamed_is_still_the_same(project: Project) -> None:
    (file,) = project.install()
    file.rename(file.with_name("2026_01_workflows.py"))

    assert project.install() == []


def test_a_later_release_adds_only_what_is_new(project: Project, later_release: Path) -> None:
    # INS-02
    project.install()
    project.flask_db("revision", "--rev-id", "app_1")
    assert missing_revisions(project.migrations, later_release) == ["geneva_0002"]

    written = install_revisions(project.migrations, later_release)

    assert [file.name for file in written] == ["geneva_0002_more.py"]
    assert parent_of(written[0]) == '"app_1"'


def test_several_missing_revisions_follow_one_another(project: Project, later_release: Path) -> None:
    project.flask_db("revision", "--rev-id", "app_1")

    written = install_revisions(project.migrations, later_release)

    assert [parent_of(file) for file in written] == ['"app_1"', '"geneva_0001"']


def test_several_heads_are_refused_with_the_remedy(project: Project) -> None:
    project.flask_db("revision", "--rev-id", "left")
    project.flask_db("revision", "--rev-id", "right", "--head", "base", "--splice")

    with pytest.raises(GenevaError, match=r"several heads \(left, right\).*Run 'flask db merge heads' first"):
        project.install()

    assert OURS not in project.revision_files


def test_after_the_merge_ours_follow_it(project: Project) -> None:
    project.flask_db("revision", "--rev-id", "left")
    project.flask_db("revision", "--rev-id", "right", "--head", "base", "--splice")
    project.flask_db("merge", "--rev-id", "merged", "heads")

    (written,) = project.install()

    assert parent_of(written) == '"merged"'


def test_several_heads_do_not_matter_when_nothing_is_missing(project: Project) -> None:
    project.install()
    project.flask_db("revision", "--rev-id", "other", "--head", "base", "--splice")

    assert project.install() == []


def test_without_a_migrations_folder_the_advice_is_to_make_one(new_project: Callable[..., Project]) -> None:
    project = new_project()

    with pytest.raises(GenevaError, match="Run 'flask db init' first"):
        project.install()
    assert not project.migrations.exists()


def test_a_revision_that_cannot_be_read_is_one_sentence(project: Project) -> None:
    project.flask_db("revision", "--rev-id", "broken")
    (file,) = (project.migrations / "versions").glob("*.py")
    file.write_text("revision = ")

    with pytest.raises(GenevaError, match=r"Cannot read the revisions in .* until 'flask db history' works"):
        project.install()


def test_a_revision_that_follows_an_unknown_one_is_one_sentence(project: Project) -> None:
    (file,) = project.install()
    file.write_text(file.read_text().replace("down_revision = None", 'down_revision = "lost"'))

    with pytest.raises(GenevaError, match="Cannot read the revisions"), pytest.warns(UserWarning, match="lost"):
        project.install()


def test_the_folder_of_versions_is_made_where_git_did_not_keep_it(project: Project) -> None:
    shutil.rmtree(project.migrations / "versions")

    assert project.install() == [project.migrations / "versions" / OURS]


def test_revisions_go_where_the_application_keeps_its_own(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    settings = project.migrations / "alembic.ini"
    locations = f"[alembic]\npath_separator = os\nversion_locations = {elsewhere}"
    settings.write_text(settings.read_text().replace("[alembic]", locations, 1))

    assert project.install() == [elsewhere / OURS]


def test_installing_opens_no_connection(new_project: Callable[..., Project]) -> None:
    project = new_project("postgresql+psycopg://nobody@127.0.0.1:1/nowhere")
    project.flask_db("init")

    assert len(project.install()) == 1


def test_the_revisions_are_one_chain() -> None:
    files = sorted(VERSIONS.glob("*.py"))
    ids = [re.search('^revision = "(.+)"$', file.read_text(), flags=re.MULTILINE) for file in files]

    names = [found[1] for found in ids if found is not None]
    assert [file.name[:11] for file in files] == names
    assert [parent_of(file).strip('"') for file in files] == ["None", *names[:-1]]
