"""``make demo``: the shop and a worker on a database of their own, and three orders on their way.

The first order is paid early, before its workflow waits for the money. The second is paid late, and the provider
tells it twice. The third meets a carrier that is out of service: its workflow pauses, and a person resumes it. With
``ONCE=1`` the demo ends when all three are finished, with status 0, or with 1 when one of them is not within a minute;
without, it stays up until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample_app.embedded_redis import EmbeddedRedis, embedded_redis, end, free_port
from sample_app.provider import over_http, pay

ROOT = Path(__file__).parents[1]
MINUTE = 60.0
NOTEBOOK, BLUE_INK = 1290, 850
SWIFT_POST, TURTLE_EXPRESS = 1, 2
ENDED = ("finished", "canceled")
ANSWERS = {202: "taken", 204: "of no interest", 200: "known already"}


class DemoFailed(Exception):
    """The demo did not come to its end; the text says what did not happen."""


@dataclass(kw_only=True)
class Watched:
    """An order and as much of its timeline as was printed."""

    label: str
    order_id: int
    amount_cents: int
    printed: set[tuple[int, str]] = field(default_factory=set)
    timeline: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> str:
        return str(self.timeline.get("state"))


@dataclass(kw_only=True)
class Demo:
    """The running shop as a customer, a payment provider and an operator see it."""

    address: str
    environment: dict[str, str]
    children: list[subprocess.Popen[bytes]]
    orders: list[Watched] = field(default_factory=list)

    def run(self) -> None:
        """Place the three orders and see them through."""
        self.switch(TURTLE_EXPRESS, down=True)
        early = self.place("paid early", SWIFT_POST, 1, NOTEBOOK)
        self.pay(early)
        late = self.place("paid late, told twice", SWIFT_POST, 3, BLUE_INK)
        broken = self.place("carrier out of service", TURTLE_EXPRESS, 1, NOTEBOOK)
        self.pay(broken)
        self.watch_until(lambda: early.state in ENDED, "order 1 to be finished")
        self.pay(late, times=2)
        self.watch_until(lambda: broken.state == "paused", "order 3 to meet its broken carrier")
        self.switch(TURTLE_EXPRESS, down=False)
        self.flask("geneva", "resume", str(broken.timeline["workflow_id"]))
        self.watch_until(lambda: all(order.state in ENDED for order in self.orders), "all three to be finished")
        if any(order.state != "finished" for order in self.orders):
            raise DemoFailed("an order ended without being finished")

    def place(self, label: str, carrier: int, product: int, amount_cents: int) -> Watched:
        """Order one piece over HTTP, as the form on the front page does."""
        form = {"carrier_id": carrier, f"quantity_{product}": 1, "name": "Ada", "email": "ada@example.org"}
        address = _post(f"{self.address}/orders", form)
        order = Watched(label=label, order_id=int(address.rpartition("/")[2]), amount_cents=amount_cents)
        self.orders.append(order)
        say(f"order {order.order_id} placed ({label}): {address}")
        return order

    def pay(self, order: Watched, times: int = 1) -> None:
        """Let the provider tell the shop that the order is paid."""
        answers = pay(over_http(self.address), order.order_id, order.amount_cents, times)
        told = ", ".join(f"{status} {ANSWERS.get(status, 'refused')}" for status in answers)
        say(f"order {order.order_id}: the provider told the shop, which answered {told}")

    def switch(self, carrier: int, *, down: bool) -> None:
        """Take a carrier out of service, or bring it back."""
        _post(f"{self.address}/carriers/{carrier}", {"down": "yes" if down else "no"})
        say(f"carrier {carrier} is {'out of' if down else 'back in'} service")

    def flask(self, *arguments: str) -> None:
        """Run a ``flask`` command to its end and show what it says."""
        say("$ flask --app sample_app " + " ".join(arguments))
        run_flask(self.environment, *arguments)

    def watch_until(self, reached: Callable[[], bool], what: str) -> None:
        """Print every change of every timeline until the condition holds."""
        give_up = time.monotonic() + MINUTE
        while True:
            for order in self.orders:
                self.look_at(order)
            if reached():
                return
            for child in self.children:
                if child.poll() is not None:
                    raise DemoFailed(f"process {child.pid} ended by itself, with status {child.returncode}")
            if time.monotonic() > give_up:
                stands = "; ".join(f"order {order.order_id}: {order.timeline['stands']}" for order in self.orders)
                raise DemoFailed(f"waited a minute for {what}; {stands}")
            time.sleep(0.2)

    def look_at(self, order: Watched) -> None:
        """Read one timeline and print what is new in it."""
        with urllib.request.urlopen(f"{self.address}/orders/{order.order_id}.json", timeout=10) as answer:
            order.timeline = json.load(answer)
        for attempt in order.timeline["attempts"]:
            mark = (attempt["id"], attempt["state"])
            if mark not in order.printed:
                order.printed.add(mark)
                say(f"order {order.order_id}  {attempt['at']}  {attempt['sentence']}")


def main() -> int:
    """Run the demo; the exit status."""
    once = os.environ.get("ONCE", "") not in ("", "0")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with ExitStack() as stack:
            demo = _start(stack)
            demo.run()
            _farewell(demo, once=once)
    except KeyboardInterrupt:
        say("ending")
        return 0
    except (DemoFailed, OSError, subprocess.CalledProcessError) as error:
        say(f"the demo failed: {error}")
        return 1
    return 0


def say(text: str) -> None:
    """Print one line at once, so that it stands in order with what the children print."""
    print(text, flush=True)


def run_flask(environment: dict[str, str], *arguments: str) -> None:
    """Run one ``flask`` command of the shop."""
    subprocess.run([*FLASK, *arguments], cwd=ROOT, env=environment, check=True, timeout=MINUTE)


FLASK = [sys.executable, "-m", "flask", "--app", "sample_app"]


def _start(stack: ExitStack) -> Demo:
    """Start everything; it is ended, last first, when the stack is left, by whatever way."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="geneva-demo-")))
    environment = _environment(folder, stack)
    run_flask(environment, "db", "upgrade")
    run_flask(environment, "seed")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    web = stack.enter_context(_child(environment, folder / "web.log", "run", "--port", str(port)))
    worker = stack.enter_context(_child(environment, folder / "worker.log", "geneva", "worker"))
    _wait_for(web, address, folder / "web.log")
    say(f"the shop is at {address}")
    return Demo(address=address, environment=environment, children=[web, worker])


def _environment(folder: Path, stack: ExitStack) -> dict[str, str]:
    """What the children run with: the servers that the environment names, else a file and a Redis of their own."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if "DATABASE_URL" not in environment:
        environment["DATABASE_URL"] = f"sqlite:///{folder / 'shop.db'}"
    if "REDIS_URL" not in environment:
        redis: EmbeddedRedis = stack.enter_context(embedded_redis())
        environment["REDIS_URL"] = redis.url
        say(f"started: {redis.kind} at {redis.url} (process {redis.process.pid})")
    return environment


@contextlib.contextmanager
def _child(environment: dict[str, str], log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a ``flask`` command until the block is left; its last words are shown when the block fails."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            [*FLASK, *arguments], cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    say(f"started: flask {' '.join(arguments)} (process {child.pid})")
    try:
        yield child
    except Exception:
        say(f"--- {' '.join(arguments)} said last:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-20:]))
        raise
    finally:
        end(child)


def _wait_for(web: subprocess.Popen[bytes], address: str, log: Path) -> None:
    give_up = time.monotonic() + MINUTE
    while web.poll() is None and time.monotonic() < give_up:
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.05)
    raise DemoFailed(f"the shop does not answer at {address}")


def _post(address: str, form: dict[str, Any]) -> str:
    """Send a form; the address of the page that it led to."""
    with urllib.request.urlopen(address, urllib.parse.urlencode(form).encode(), timeout=10) as answer:
        return str(answer.url)


def _farewell(demo: Demo, *, once: bool) -> None:
    for order in demo.orders:
        demo.flask("geneva", "show", str(order.timeline["workflow_id"]))
    say(f"all three orders are finished; the shop is at {demo.address}")
    if once:
        return
    say("It stays up; Ctrl-C ends it.")
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main())
