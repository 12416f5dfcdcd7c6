"""A child that performs one job after another, and the line on which its parent hears of it.

RQ forks for each job. A child that stays keeps its connections and what it has learned, and is a parent's to watch all
the same: it answers after each job, and one that ends without an answer has died.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
DONE, DONE_AND_LEAVING = b".", b"x"
LOOK_EVERY = 0.5
LEAVE_WITHIN = 5.0
# The status of a child that ended without an answer, and said that all was well.
UNANSWERED = 256


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What the child is told: where its job is to be found."""

    job_id: str
    queue: str
    execution_id: str


class WorkHorse:
    """The parent's side."""

    def __init__(self, process_id: int, line: socket.socket) -> None:
        self.process_id = process_id
        self.cause_of_death: str | None = None
        self._line = line
        self._last_used = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """Since when it has had nothing to do."""
        return time.monotonic() - self._last_used

    def takes(self, errand: Errand) -> bool:
        """Send the child a job; False when it is there no more."""
        try:
            self._line.sendall(json.dumps(asdict(errand)).encode() + b"\n")
        except OSError:
            return False
        return True

    def wait(self) -> tuple[int, int, Any]:
        """Wait for the answer or the end of the child, and return what ``os.wait4`` does; 0 is an answer.

        An alarm may break it off at any point, and the next call goes on: an answer is looked at and left where it is.
        """
        while True:
            readable, _, _ = select.select([self._line], [], [], LOOK_EVERY)
            answer = self._peek() if readable else None
            if answer in (DONE, DONE_AND_LEAVING):
                return self._answered(answer)
            # A process that the step has left behind may hold the line open.
            process_id, status, usage = os.wait4(self.process_id, 0 if answer == b"" else os.WNOHANG)
            if process_id:
                self._line.close()
                self.cause_of_death = _cause(status)
                return process_id, status or UNANSWERED, usage

    def dismiss(self) -> None:
        """Let an idle child end, and wait for it."""
        self._line.close()
        give_up = time.monotonic() + LEAVE_WITHIN
        while os.waitpid(self.process_id, os.WNOHANG) == (0, 0):
            if time.monotonic() > give_up:
                os.kill(self.process_id, signal.SIGKILL)
            time.sleep(0.005)

    def _peek(self) -> bytes:
        try:
            return self._line.recv(1, socket.MSG_PEEK)
        except OSError:
            return b""

    def _answered(self, answer: bytes) -> tuple[int, int, Any]:
        self._last_used = time.monotonic()
        self._line.recv(1)
        if answer == DONE_AND_LEAVING:
            self.dismiss()
        return self.process_id, 0, None

    @property
    def has_left(self) -> bool:
        """Whether it can be given nothing any more."""
        return self._line.fileno() < 0


def fork_work_horse(serve: Callable[[socket.socket], None]) -> WorkHorse:
    """Fork a child that serves its line and ends with it; a signal that comes meanwhile waits until both are ready."""
    parents, childs = socket.socketpair()
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        process_id = os.fork()
        if process_id == 0:
            _be_the_child(serve, parents, childs)
        childs.close()
        return WorkHorse(process_id, parents)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def errands(line: socket.socket) -> Iterator[Errand]:
    """Yield what the parent sends, until it hangs up."""
    with line.makefile("rb") as messages:
        for message in messages:
            yield Errand(**json.loads(message))


def _cause(status: int) -> str:
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"


def _be_the_child(serve: Callable[[socket.socket], None], parents: socket.socket, childs: socket.socket) -> None:
    status = 1
    try:
        os.setpgrp()
        parents.close()
        serve(childs)
        status = 0
    except Exception:
        logger.exception("A work-horse stumbled, and ends")
    finally:
        # Not the parent's exit handlers, and not its stack.
        os._exit(status)
