"""``docker-compose.yml``, read as data: no Docker is needed to see that its parts fit each other."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from flask.cli import FlaskGroup

from sample_app import create_app

ROOT = Path(__file__).parents[2]
OURS = ("migrate", "web", "worker-1", "worker-2")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return services


def test_every_server_the_web_app_and_two_workers_are_there(services: dict[str, Any]) -> None:
    assert set(services) == {"postgres", "mysql", "mariadb", "redis", *OURS}


def test_every_service_that_stays_up_has_a_health_check(services: dict[str, Any]) -> None:
    without = [name for name, service in services.items() if "healthcheck" not in service]

    assert without == ["migrate"]


def test_a_service_waits_only_for_services_that_are_there_and_can_become_what_is_waited_for(
    services: dict[str, Any],
) -> None:
    waits = [
        (on, how["condition"]) for service in services.values() for on, how in service.get("depends_on", {}).items()
    ]

    assert {on for on, condition in waits if condition == "service_healthy"} <= {
        name for name, service in services.items() if "healthcheck" in service
    }
    assert {on for on, condition in waits if condition == "service_completed_successfully"} == {"migrate"}


def test_every_flask_command_that_a_service_runs_exists(services: dict[str, Any]) -> None:
    commands = [
        part
        for service in services.values()
        for words in (service.get("command", []), service.get("healthcheck", {}).get("test", []))
        for part in " ".join(words).split("&&")
        if "flask" in part.split()
    ]

    assert len(commands) == 6
    for command in commands:
        assert_flask_command_exists(shlex.split(command)[shlex.split(command).index("flask") + 1 :])


def test_no_port_is_open_to_the_network(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_image_copies_only_what_is_there() -> None:
    lines = [line.split() for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("COPY")]

    missing = [source for _, *sources, _ in lines for source in sources if not (ROOT / source).exists()]

    assert missing == []


def assert_flask_command_exists(words: list[str]) -> None:
    with FlaskGroup(create_app=create_app).make_context("flask", [], resilient_parsing=True) as context:
        command: Any = context.command
        for word in words:
            command = command.get_command(context, word)
            assert command is not None, f"flask {' '.join(words)}"
            if not hasattr(command, "get_command"):
                return
