"""Real ``flask geneva worker`` processes, started for one test and ended by their pids."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.apps import DATABASE_VARIABLE, MODULES_VARIABLE, REDIS_VARIABLE

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class WorkerProcess:
    """One process, the head of a process group of its own, so that its work-horses can be ended with it."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        """What it has written so far."""
        return self.log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the worker alone."""
        self.process.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        """Send a signal to the worker and whatever it forked."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait(self, within: float = 30.0) -> int:
        """Wait for its end; the exit status."""
        return self.process.wait(within)

    def end(self) -> None:
        """Stop it, softly at first."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.send_to_group(signal.SIGCONT)
            self.send(signal.SIGTERM)
            self.wait(10)
        self.send_to_group(signal.SIGKILL)
        self.process.wait()


@dataclass(kw_only=True)
class Workers:
    """Starts workers on one database and one Redis."""

    database_url: str
    redis_url: str
    folder: Path
    started: list[WorkerProcess] = field(default_factory=list)

    def start(
        self, *arguments: str, modules: Iterable[str] = (), config: Mapping[str, Any] | None = None
    ) -> WorkerProcess:
        """Start one: ``start("--no-fork", "--burst", modules=[__name__], config={"GENEVA_RUN_AHEAD": 0})``.

        ``modules`` are the modules that declare the workflow classes.
        """
        return self.run("geneva", "worker", *arguments, modules=modules, config=config)

    def run(
        self,
        *command: str,
        modules: Iterable[str] = (),
        config: Mapping[str, Any] | None = None,
        stderr: int = subprocess.STDOUT,
    ) -> WorkerProcess:
        """Start any ``flask`` command in the application of the tests."""
        log = self.folder / f"process-{len(self.started) + 1}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "flask", "--app", "tests.harness.apps", *command],
                cwd=ROOT,
                env=self._environment(modules, config or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=stderr,
                start_new_session=True,
            )
        self.started.append(WorkerProcess(process=process, log=log))
        return self.started[-1]

    def _environment(self, modules: Iterable[str], config: Mapping[str, Any]) -> dict[str, str]:
        names = {f"GENEVA_TEST_CONFIG_{key}": json.dumps(value) for key, value in config.items()}
        wanted = {
            DATABASE_VARIABLE: self.database_url,
            REDIS_VARIABLE: self.redis_url,
            MODULES_VARIABLE: ",".join(modules),
            "PYTHONUNBUFFERED": "1",
        }
        return {**os.environ, **wanted, **names}


@contextlib.contextmanager
def workers_on(database_url: str, redis_url: str, folder: Path) -> Iterator[Workers]:
    """Start workers within the block; at its end they are all ended, and what they wrote is printed."""
    workers = Workers(database_url=database_url, redis_url=redis_url, folder=folder)
    try:
        yield workers
    finally:
        for worker in workers.started:
            worker.end()
            print(f"--- {' '.join(map(str, worker.process.args))}\n{worker.output}")  # type: ignore[arg-type]
