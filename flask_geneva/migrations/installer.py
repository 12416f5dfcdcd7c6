"""Copies the library's revisions into an application's ``migrations`` folder; touches no database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

from flask_geneva.errors import GenevaError

VERSIONS = Path(__file__).parent / "versions"
SETTINGS = "alembic.ini"
_ENVIRONMENT = "env.py"


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One of the library's revisions."""

    id: str
    file: Path

    def following(self, parent: str | None) -> str:
        """Write the revision as the one that comes after ``parent``."""
        text = self.file.read_text(encoding="utf-8")
        revises, down_revision = f"Revises: {parent or ''}".rstrip(), f"down_revision = {_quoted(parent)}"
        text = re.sub("^Revises:.*$", revises, text, count=1, flags=re.MULTILINE)
        return re.sub("^down_revision = .*$", down_revision, text, count=1, flags=re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class History:
    """What an application's ``migrations`` folder holds."""

    directory: Path
    versions: Path
    revisions: frozenset[str]
    heads: tuple[str, ...]


def install_revisions(migrations_directory: Path, source: Path = VERSIONS) -> list[Path]:
    """Copy the revisions that the application lacks, chained to its head; return the files that were written.

    Run again it writes nothing, or what a later release of the library has added.

    :raises GenevaError: there is no migrations folder, its revisions cannot be read, or they have several heads.
    """
    history = read_history(migrations_directory)
    missing = _missing_from(history, source)
    parent = _head_of(history) if missing else None
    history.versions.mkdir(exist_ok=True)
    written = []
    for revision in missing:
        target = history.versions / revision.file.name
        target.write_text(revision.following(parent), encoding="utf-8")
        written.append(target)
        parent = revision.id
    return written


def missing_revisions(migrations_directory: Path, source: Path = VERSIONS) -> list[str]:
    """Tell which of the library's revisions the application lacks.

    :raises GenevaError: there is no migrations folder, or its revisions cannot be read.
    """
    return [revision.id for revision in _missing_from(read_history(migrations_directory), source)]


def read_history(migrations_directory: Path) -> History:
    """Read the revisions in a ``migrations`` folder.

    :raises GenevaError: there is no such folder, or a revision cannot be read.
    """
    if not has_history(migrations_directory):
        raise GenevaError(
            f"Cannot find the migrations of the application: there is no '{migrations_directory / _ENVIRONMENT}'. "
            f"Run 'flask db init' first, or give the folder with --directory."
        )
    config = Config(_settings_of(migrations_directory))
    config.set_main_option("script_location", str(migrations_directory).replace("%", "%%"))
    try:
        script = ScriptDirectory.from_config(config)
        revisions = frozenset(revision.revision for revision in script.walk_revisions())
        heads = tuple(script.get_heads())
    except Exception as error:  # Reading runs the application's own revision files.
        raise GenevaError(
            f"Cannot read the revisions in '{migrations_directory}': {error}. Mend them until 'flask db history' works."
        ) from error
    return History(directory=migrations_directory, versions=_versions_of(script), revisions=revisions, heads=heads)


def has_history(migrations_directory: Path) -> bool:
    """Tell whether the folder is one of Alembic's."""
    return (migrations_directory / _ENVIRONMENT).is_file()


def _settings_of(migrations_directory: Path) -> Path | None:
    """Flask-Migrate keeps them in the folder, Alembic by itself beside it; there may be none."""
    candidates = (migrations_directory / SETTINGS, migrations_directory.absolute().parent / SETTINGS)
    return next((file for file in candidates if file.is_file()), None)


def _versions_of(script: ScriptDirectory) -> Path:
    return Path(script.version_locations[0]) if script.version_locations else Path(script.dir) / "versions"


def _missing_from(history: History, source: Path) -> list[Revision]:
    return [revision for revision in _revisions_in(source) if revision.id not in history.revisions]


def _revisions_in(source: Path) -> list[Revision]:
    """Read the library's chain; the names of the files are its order."""
    return [Revision(id=_id_of(file), file=file) for file in sorted(source.glob("geneva_*.py"))]


def _id_of(file: Path) -> str:
    found = re.search('^revision = "(.+)"$', file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert found is not None, f"{file} names no revision"
    return found[1]


def _head_of(history: History) -> str | None:
    if len(history.heads) > 1:
        raise GenevaError(
            f"Cannot install the revisions in '{history.directory}': they have several heads "
            f"({', '.join(sorted(history.heads))}), and ours can follow only one. Run 'flask db merge heads' first."
        )
    return history.heads[0] if history.heads else None


def _quoted(parent: str | None) -> str:
    return "None" if parent is None else f'"{parent}"'
