"""The keys of ``app.config``: defaults, the forms that are understood, and what a wrong value is told."""

from __future__ import annotations

import dataclasses
import logging
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_geneva import Geneva
from flask_geneva.config import DEFAULT_REDIS_URL, KEYS, Settings, read_settings, set_defaults
from flask_geneva.errors import ConfigurationError
from tests.harness.models import db

ROOT = Path(__file__).parents[1]
DURATIONS = [key.name for key in KEYS if isinstance(key.default, timedelta)]


def setting(name: str, value: Any) -> Any:
    """What a value of a key is read as."""
    return getattr(read_settings({f"GENEVA_{name}": value}), name.lower())


def test_every_setting_has_a_default() -> None:
    # CFG-01 CFG-02 CFG-03 CFG-04 CFG-05 CFG-06 CFG-07 CFG-08 CFG-18
    settings = read_settings({})

    assert (settings.delete_completed_workflows_after, settings.stuck_in_progress_threshold) == (
        timedelta(days=30),
        timedelta(hours=1),
    )
    assert settings.stuck_scheduled_threshold == timedelta(seconds=60)
    assert (settings.housekeeping_batch_size, settings.stuck_recovery_action) == (1000, "reattempt")
    assert settings.max_cursor_size == settings.max_signal_payload_size == 131_072
    assert settings.waiting_visibility_threshold == timedelta(days=7)
    assert (settings.queue, settings.enqueue, settings.url_prefix) == ("geneva", True, "/geneva")


def test_the_table_of_keys_and_the_settings_have_the_same_names() -> None:
    assert sorted(key.field for key in KEYS) == sorted(field.name for field in dataclasses.fields(Settings))


def test_the_readme_has_the_table_of_keys() -> None:
    section = (ROOT / "README.md").read_text().partition("## Configuration")[2].partition("\n## ")[0]

    rows = re.findall(r"^\| `(GENEVA_\w+)` \| (.*) \| (.*) \|$", section, flags=re.MULTILINE)

    assert rows == [(key.name, default_in_words(key.name, key.default), key.meaning) for key in KEYS]


def test_defaults_go_into_the_config_and_leave_what_is_there() -> None:
    config: dict[str, Any] = {"GENEVA_QUEUE": "mine"}

    set_defaults(config)

    assert config["GENEVA_QUEUE"] == "mine"
    assert config["GENEVA_JOB_TIMEOUT"] == timedelta(hours=1)
    assert read_settings(config).redis_url == config["GENEVA_REDIS_URL"] == DEFAULT_REDIS_URL


def test_two_applications_do_not_share_a_default() -> None:
    one: dict[str, Any] = {}
    two: dict[str, Any] = {}
    set_defaults(one)
    set_defaults(two)

    one["GENEVA_WEBHOOK_SECRETS"].append("whsec_mine")

    assert two["GENEVA_WEBHOOK_SECRETS"] == []


def test_the_redis_of_the_application_is_the_default_redis() -> None:
    assert read_settings({"REDIS_URL": "rediss://cache:6380/2"}).redis_url == "rediss://cache:6380/2"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (timedelta(minutes=2), timedelta(minutes=2)),
        (90, timedelta(seconds=90)),
        (0.5, timedelta(seconds=0.5)),
        ("30", timedelta(seconds=30)),
        (" 0.5 ", timedelta(seconds=0.5)),
    ],
)
@pytest.mark.parametrize("name", DURATIONS)
def test_a_duration_is_a_timedelta_or_seconds_also_as_text(name: str, given: Any, read: timedelta) -> None:
    assert setting(name.removeprefix("GENEVA_"), given) == read


@pytest.mark.parametrize(
    "given", [True, -1, -0.001, float("nan"), float("inf"), "soon", "", [], 10**400, "1e400", "nan"]
)
@pytest.mark.parametrize("name", DURATIONS)
def test_what_is_no_duration_is_refused_by_name(name: str, given: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        read_settings({name: given})


@pytest.mark.parametrize("name", ["JOB_TIMEOUT", "HOUSEKEEPING_INTERVAL"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"GENEVA_{name}.*above 0.*None"):
        setting(name, 0)


@pytest.mark.parametrize("given", [None, "None", "null", " NULL "])
@pytest.mark.parametrize(
    "name",
    [
        "JOB_TIMEOUT",
        "SPOOL_HORIZON",
        "HOUSEKEEPING_INTERVAL",
        "DELETE_COMPLETED_WORKFLOWS_AFTER",
        "WAITING_VISIBILITY_THRESHOLD",
        "MAX_SIGNAL_PAYLOAD_SIZE",
        "MAX_CURSOR_SIZE",
        "WEBHOOK_TOLERANCE",
    ],
)
def test_none_switches_off(name: str, given: Any) -> None:
    assert setting(name, given) is None


@pytest.mark.parametrize(
    "name", ["RUN_AHEAD", "STUCK_SCHEDULED_THRESHOLD", "HOUSEKEEPING_BATCH_SIZE", "QUEUE", "ENQUEUE"]
)
def test_none_is_refused_where_it_means_nothing(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"GENEVA_{name}"):
        setting(name, None)


@pytest.mark.parametrize(("given", "read"), [(7, 7), ("1000", 1000), (" 12 ", 12)])
def test_a_number_may_come_as_text(given: Any, read: int) -> None:
    assert setting("HOUSEKEEPING_BATCH_SIZE", given) == read


@pytest.mark.parametrize("given", [0, -5, 1.5, True, "many", "-1", "٣"])
def test_what_is_no_count_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"GENEVA_HOUSEKEEPING_BATCH_SIZE.*whole number above 0"):
        setting("HOUSEKEEPING_BATCH_SIZE", given)


@pytest.mark.parametrize(
    ("given", "read"), [("true", True), ("False", False), ("0", False), (1, True), ("ON", True), (False, False)]
)
def test_a_flag_may_come_as_text(given: Any, read: bool) -> None:
    assert setting("ENQUEUE", given) is read


@pytest.mark.parametrize("given", ["nope", "", 2, 1.0, []])
def test_what_is_no_flag_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"GENEVA_ENQUEUE.*True or False"):
        setting("ENQUEUE", given)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["whsec_a", "whsec_b"], ("whsec_a", "whsec_b")),
        ('["whsec_a", "whsec_b"]', ("whsec_a", "whsec_b")),
        ("whsec_a, whsec_b", ("whsec_a", "whsec_b")),
        ("whsec_a", ("whsec_a",)),
        ("", ()),
        (None, ()),
    ],
)
def test_secrets_are_a_list_also_as_text(given: Any, read: tuple[str, ...]) -> None:
    assert setting("WEBHOOK_SECRETS", given) == read


@pytest.mark.parametrize("given", [["whsec_hush", ""], ["whsec_hush", 7], '["whsec_hush"', 7])
def test_an_error_about_a_secret_does_not_tell_it(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="GENEVA_WEBHOOK_SECRETS") as caught:
        setting("WEBHOOK_SECRETS", given)

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("given", ["http://me:hush@host/0", "localhost:6379", "", None, 6379])
def test_an_url_of_no_redis_is_refused_without_telling_its_password(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"GENEVA_REDIS_URL.*redis://localhost:6379/0") as caught:
        setting("REDIS_URL", given)

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("given", ["retry", "Pause", None, 1])
def test_an_unknown_recovery_action_is_refused_with_the_known_ones(given: Any) -> None:
    # HSK-26
    with pytest.raises(ConfigurationError, match=r"GENEVA_STUCK_RECOVERY_ACTION.*'reattempt', 'cancel', 'pause'"):
        setting("STUCK_RECOVERY_ACTION", given)


@pytest.mark.parametrize(("given", "read"), [("/flow", "/flow"), ("/flow/", "/flow"), ("/", ""), ("", "")])
def test_a_prefix_is_a_path(given: str, read: str) -> None:
    assert setting("URL_PREFIX", given) == read


def test_a_prefix_without_its_slash_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"GENEVA_URL_PREFIX.*begins with '/'"):
        setting("URL_PREFIX", "geneva")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("GENEVA_QUEU", "GENEVA_QUEUE"),
        ("GENEVA_TIMEOUT", "GENEVA_JOB_TIMEOUT"),
        ("GENEVA_WEBHOOK_SECRET", "GENEVA_WEBHOOK_SECRETS"),
    ],
)
def test_a_misspelled_key_is_refused_with_the_one_that_was_meant(given: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{given}'.*'{meant}'"):
        read_settings({given: "x"})


def test_a_key_like_none_of_ours_is_left_alone_but_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="flask_geneva"):
        read_settings({"GENEVA_OFFICE_PHONE": "+41", "GENEVA_TEST_REDIS_URL": "redis://test"})

    assert [record.getMessage() for record in caplog.records] == [
        "The config key 'GENEVA_OFFICE_PHONE' is none of Flask-Geneva's, and it is not read."
    ]


def test_a_wrong_value_stops_the_application_from_starting() -> None:
    app = Flask("wrong")
    app.config.from_mapping(SQLALCHEMY_DATABASE_URI="sqlite://", GENEVA_RUN_AHEAD="soon")
    db.init_app(app)

    with pytest.raises(ConfigurationError, match="'GENEVA_RUN_AHEAD' cannot be 'soon'"):
        Geneva(app, db)


def test_the_environment_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Flask("environment")
    monkeypatch.setenv("FLASK_GENEVA_JOB_TIMEOUT", "None")
    monkeypatch.setenv("FLASK_GENEVA_RUN_AHEAD", "0.5")
    monkeypatch.setenv("FLASK_GENEVA_ENQUEUE", "False")
    monkeypatch.setenv("FLASK_GENEVA_WEBHOOK_SECRETS", '["whsec_a"]')

    app.config.from_prefixed_env()
    settings = read_settings(app.config)

    assert (settings.job_timeout, settings.run_ahead) == (None, timedelta(seconds=0.5))
    assert (settings.enqueue, settings.webhook_secrets) == (False, ("whsec_a",))


def default_in_words(name: str, default: Any) -> str:
    """A default as the README has it."""
    if name == "GENEVA_REDIS_URL":
        return f"the app's `REDIS_URL`, else `{default}`"
    if not isinstance(default, timedelta):
        return f"`{default!r}`".replace("'", '"')
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        number, rest = divmod(int(default.total_seconds()), size)
        if rest == 0 and (number > 1 or unit != "minute"):
            return f"{number} {unit}{'s' if number > 1 else ''}"
    return f"{int(default.total_seconds())} s"
