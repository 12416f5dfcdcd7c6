"""Webhooks through a real HTTP server, in processes of their own, with a worker that does what they ask for."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_geneva import Signal, SignalState, Workflow, step
from flask_geneva.testing import perform_next_step
from flask_geneva.webhooks import Delivery, StandardWebhook, WebhookEvent
from tests.harness.apps import geneva
from tests.harness.models import db, write_down, written_down
from tests.harness.waiting import eventually
from tests.harness.workers import WorkerProcess, Workers
from tests.webhooks.signing import SECRET, standard_headers

MEGABYTE = 2**20
HUNDRED_MEGABYTES = 100 * MEGABYTE
AT_ONCE = 12


class ServedPayment(Workflow):
    """Waits for a payment and writes it down."""

    may_proceed_without_hero = True

    @step(wait_for="paid")
    def take(self) -> None:
        write_down(self, f"took {self.received_signal.payload}")


@geneva.webhook("served", StandardWebhook(SECRET))
def take_event(event: WebhookEvent) -> Delivery:
    workflow = db.session.get(ServedPayment, event.data["workflow"])
    return Delivery(workflow, "paid", payload=event.data["payload"])


class Server:
    """A ``flask run`` of the application of the tests, which serves each request in a thread of its own."""

    def __init__(self, process: WorkerProcess) -> None:
        self.process = process
        found = eventually(lambda: re.search(r"Running on http://127\.0\.0\.1:(\d+)", process.output))
        self.port = int(found[1])

    def post(self, path: str, value: Any, *, id: str = "msg_1") -> tuple[int, Any]:
        """Post a signed JSON value; the status and what the answer says."""
        body = json.dumps(value).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {**standard_headers(body, id=id), "Content-Type": "application/json"}
        connection.request("POST", f"/geneva{path}", body, headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, json.loads(answer) if answer else None

    def post_zeros(self, path: str, *, chunked: bool) -> int:
        """Post a hundred megabytes; the status."""
        length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {HUNDRED_MEGABYTES}"
        signed = "".join(f"{name}: {text}\r\n" for name, text in standard_headers(b"").items())
        head = (
            f"POST /geneva{path} HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\n{signed}{length}\r\n\r\n"
        )
        piece = bytes(MEGABYTE)
        framed = b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(head.encode())
            for _ in range(HUNDRED_MEGABYTES // MEGABYTE):
                connection.sendall(framed)
            connection.sendall(b"0\r\n\r\n" if chunked else b"")
            return int(connection.makefile("rb").readline().split()[1])

    def peak_memory(self) -> int:
        """The most bytes of memory that it ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


@pytest.fixture
def serve(queueing_app: Flask, workers: Workers) -> Callable[[], Server]:
    def start() -> Server:
        config = {"GENEVA_WEBHOOK_SECRETS": [SECRET]}
        return Server(workers.run("run", "--port", "0", modules=[__name__], config=config))

    return start


def park() -> int:
    """Create a workflow that waits for its payment; its id."""
    workflow = ServedPayment.create(hero=None)
    db.session.commit()
    perform_next_step(workflow)
    found = workflow.id
    db.session.rollback()
    return found


@pytest.mark.timeout(180)
def test_one_event_that_many_requests_bring_to_two_processes_at_once_wakes_its_step_once(
    serve: Callable[[], Server], workers: Workers
) -> None:
    servers = [serve(), serve()]
    workers.start("--no-fork", modules=[__name__])
    workflow = park()
    together = threading.Barrier(AT_ONCE)
    answers: list[tuple[int, Any]] = []

    def deliver(number: int) -> None:
        together.wait(30)
        server = servers[number % 2]
        answers.append(server.post("/webhooks/served", {"workflow": workflow, "payload": "the money"}))

    threads = [threading.Thread(target=deliver, args=[number]) for number in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert Counter(status for status, _ in answers) == {202: 1, 200: AT_ONCE - 1}
    assert len({answer["signal_id"] for _, answer in answers}) == 1
    eventually(lambda: written_down(workflow))
    assert written_down(workflow) == ["took the money"]
    [signal] = db.session.query(Signal).filter_by(workflow_id=workflow)
    assert (signal.state, signal.claimed, signal.consumed) == (SignalState.CONSUMED, 1, 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc to read a process's memory from")
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_hundred_megabytes_leave_the_memory_of_a_server_flat(serve: Callable[[], Server], chunked: bool) -> None:
    server = serve()
    assert server.post("/webhooks/nobody", {})[0] == 404
    before = server.peak_memory()

    statuses = [server.post_zeros(path, chunked=chunked) for path in ("/webhooks/served", "/workflows/1/signals/paid")]

    assert statuses == [413, 413]
    # The server itself throws the rest away in pieces of ten megabytes.
    assert server.peak_memory() - before < 40 * MEGABYTE
