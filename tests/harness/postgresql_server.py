"""A PostgreSQL server of a test's own, which it may stop."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sample_app.embedded_redis import free_port
from tests.harness.absence import ServerAbsent

# Where packages put the programs that are not for every user.
_PLACES = "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"


@dataclass(frozen=True, kw_only=True)
class OwnPostgreSQL:
    """A server that runs from the files of one folder."""

    programs: Path
    folder: Path
    port: int
    user: str | None

    @property
    def url(self) -> str:
        """The address of its database."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        self._control("start", "-w", "-o", options, "-l", str(self.folder / "log"))

    def crash(self) -> None:
        """End it as a loss of power does; the next start recovers what was committed."""
        self._control("stop", "-m", "immediate")

    def run(self, program: str, *arguments: str) -> None:
        """Run one of its programs as the user that owns its files."""
        command = [str(self.programs / program), *arguments]
        # Not into pipes: the server would keep them open.
        subprocess.run(command, user=self.user, cwd=self.folder, check=True, stdout=subprocess.DEVNULL, timeout=60)

    def _control(self, *arguments: str) -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), *arguments)


@contextlib.contextmanager
def own_postgresql() -> Iterator[OwnPostgreSQL]:
    """A running server, which is gone at the end of the block.

    :raises ServerAbsent: its programs are not on this machine.
    """
    programs = _programs()
    # It refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="geneva-postgresql-"))
    if user is not None:
        shutil.chown(folder, user)
    server = OwnPostgreSQL(programs=programs, folder=folder, port=free_port(), user=user)
    try:
        server.run("initdb", "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "--no-sync")
        server.start()
        yield server
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            server.crash()
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    for place in _PLACES:
        places += sorted(Path("/").glob(place.lstrip("/")))
    if not places:
        raise ServerAbsent("PostgreSQL of our own: initdb is nowhere on this machine")
    return places[-1]
