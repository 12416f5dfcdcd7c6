"""The ``GENEVA_`` keys of ``app.config``: their defaults, how a value is read, and the settings made of them.

``KEYS`` is the one list: defaults, reading, checking and the table of the README follow from it.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from flask_geneva.errors import ConfigurationError

logger = logging.getLogger(__name__)

DEFAULT_REDIS_URL = "redis://localhost:6379/0"
PREFIX = "GENEVA_"
# The variables that a test suite is steered by, when an application takes everything from the environment.
TEST_PREFIX = "GENEVA_TEST_"
RECOVERY_ACTIONS = ("reattempt", "cancel", "pause")
REDIS_SCHEMES = ("redis", "rediss", "unix", "sentinel")
LONGEST = timedelta(days=365_000)  # a due time must stay a valid datetime

Reader = Callable[[object], Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The configuration of one application, read and checked."""

    redis_url: str
    queue: str
    enqueue: bool
    job_timeout: timedelta | None
    run_ahead: timedelta
    spool_horizon: timedelta | None
    stuck_scheduled_threshold: timedelta
    stuck_in_progress_threshold: timedelta
    stuck_recovery_action: str
    housekeeping_interval: timedelta | None
    housekeeping_batch_size: int
    delete_completed_workflows_after: timedelta | None
    waiting_visibility_threshold: timedelta | None
    max_signal_payload_size: int | None
    max_cursor_size: int | None
    configure_sqlite: bool
    url_prefix: str
    webhook_secrets: tuple[str, ...]
    webhook_tolerance: timedelta | None
    webhook_max_body_size: int | None
    webhook_keep_bodies: bool
    dashboard_access: Any
    dashboard_show_payloads: bool


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key: ``read`` turns a value into the setting or raises ``ValueError`` with what to give instead."""

    name: str
    default: Any
    read: Reader
    meaning: str
    shown: Callable[[Any], str] = repr

    @property
    def field(self) -> str:
        """The attribute of :class:`Settings` that holds the value."""
        return self.name.removeprefix(PREFIX).lower()


def read_settings(config: Mapping[str, Any]) -> Settings:
    """Read and check every ``GENEVA_`` key; one that is not set has its default.

    :raises ConfigurationError: for a wrong value, or a key that is a misspelling of one of ours.
    """
    _check_names(config)
    return Settings(**{key.field: _read(key, config) for key in KEYS})


def set_defaults(config: MutableMapping[str, Any]) -> None:
    """Put the default of every key that is not set into the configuration of an application."""
    for key in KEYS:
        config.setdefault(key.name, _default(key, config))


def without_password(url: str) -> str:
    """Return a URL in which nothing is secret any more."""
    return re.sub(r"//[^/]*@", "//***@", url)


def _read(key: Key, config: Mapping[str, Any]) -> Any:
    value = config[key.name] if key.name in config else _default(key, config)
    try:
        return key.read(value)
    except ValueError as error:
        raise ConfigurationError(f"'{key.name}' cannot be {key.shown(value)}. {error}") from None


def _default(key: Key, config: Mapping[str, Any]) -> Any:
    if key.name == "GENEVA_REDIS_URL":
        return config.get("REDIS_URL") or key.default
    return copy.copy(key.default)


def _check_names(config: Mapping[str, Any]) -> None:
    known = {key.name.removeprefix(PREFIX): key for key in KEYS}
    for name in config:
        if not name.startswith(PREFIX) or name.startswith(TEST_PREFIX) or name.removeprefix(PREFIX) in known:
            continue
        # Compared without the prefix, which would make every name look alike.
        near = get_close_matches(name.removeprefix(PREFIX), known, n=1, cutoff=0.7)
        if near:
            raise ConfigurationError(f"There is no config key '{name}'. Write '{PREFIX}{near[0]}', or take it out.")
        logger.warning("The config key '%s' is none of Flask-Geneva's, and it is not read.", name)


# -- readers


def _optional(read: Reader) -> Reader:
    def read_optional(value: object) -> Any:
        if value is None or (isinstance(value, str) and value.strip().lower() in {"none", "null"}):
            return None
        try:
            return read(value)
        except ValueError as error:
            raise ValueError(f"{error} None is possible, too.") from None

    return read_optional


def _duration(value: object) -> timedelta:
    try:
        duration = value if isinstance(value, timedelta) else timedelta(seconds=_number(value))
    except OverflowError:
        duration = timedelta.max
    if not timedelta(0) <= duration <= LONGEST:
        raise ValueError(f"Give a duration from 0 to {LONGEST.days} days, as a timedelta or in seconds.")
    return duration


def _number(value: object) -> float:
    wrong = ValueError("Give a timedelta, or a number of seconds that is not negative.")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise wrong
    try:
        number = float(value)
    except ValueError:
        raise wrong from None
    if math.isnan(number) or number < 0:
        raise wrong
    return number


def _positive_duration(value: object) -> timedelta:
    duration = _duration(value)
    if not duration:
        raise ValueError("Give a timedelta or a number of seconds above 0.")
    return duration


def _count(value: object) -> int:
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and re.fullmatch(r"[0-9]{1,18}", text):
        text = int(text)
    if isinstance(text, bool) or not isinstance(text, int) or text < 1:
        raise ValueError("Give a whole number above 0.")
    return text


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    text = str(value).strip().lower()
    if not isinstance(value, str | int) or text not in known:
        raise ValueError("Give True or False.")
    return known[text]


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("Give a text that is not empty.")
    return value


def _redis_url(value: object) -> str:
    if not isinstance(value, str) or urlsplit(value).scheme not in REDIS_SCHEMES:
        forms = ", ".join(f"{scheme}://" for scheme in REDIS_SCHEMES)
        raise ValueError(f"Give the URL of a Redis, such as {DEFAULT_REDIS_URL}; it begins with one of {forms}.")
    return value


def _recovery_action(value: object) -> str:
    if not isinstance(value, str) or value not in RECOVERY_ACTIONS:
        raise ValueError(f"Give one of {', '.join(map(repr, RECOVERY_ACTIONS))}.")
    return str(value)


def _url_prefix(value: object) -> str:
    if not isinstance(value, str) or (value and not value.startswith("/")):
        raise ValueError("Give a path that begins with '/', such as '/geneva'.")
    return value.rstrip("/")


def _secrets(value: object) -> tuple[str, ...]:
    secrets = _listed(value)
    if not all(isinstance(secret, str) and secret.strip() for secret in secrets):
        raise ValueError("Give a list of secrets, each of them a text such as 'whsec_...' that is not empty.")
    return secrets


def _listed(value: object) -> tuple[Any, ...]:
    """A list as it is, or as text: JSON, or divided by commas."""
    if value is None:
        return ()
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(value)
    if not isinstance(value, str):
        return (value,)
    if value.lstrip().startswith("["):
        # A JSONDecodeError is a ValueError, and quotes what it could not read.
        try:
            return tuple(json.loads(value))
        except ValueError:
            return (None,)
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _anything(value: object) -> object:
    return value


# -- values in error texts


def _hidden(value: object) -> str:
    return f"this value of type {type(value).__name__}, which is not shown here"


def _shown_url(value: object) -> str:
    return repr(without_password(value) if isinstance(value, str) else value)


# -- the table

KEYS = (
    Key(
        name="GENEVA_REDIS_URL",
        default=DEFAULT_REDIS_URL,
        read=_redis_url,
        meaning="where RQ lives; `rediss://`, `unix://` and `sentinel://host:port,host:port/service/db` work",
        shown=_shown_url,
    ),
    Key(name="GENEVA_QUEUE", default="geneva", read=_text, meaning="the queue of steps that name no other"),
    Key(
        name="GENEVA_ENQUEUE",
        default=True,
        read=_flag,
        meaning="`False`: rows are written and nothing is sent to Redis; housekeeping picks the rows up later",
    ),
    Key(
        name="GENEVA_JOB_TIMEOUT",
        default=timedelta(hours=1),
        read=_optional(_positive_duration),
        meaning="how long the job of a step may run; `None`: for ever",
    ),
    Key(
        name="GENEVA_RUN_AHEAD",
        default=timedelta(seconds=30),
        read=_duration,
        meaning="how long, from the start of a job, a worker goes straight on with the workflow's next due step; "
        "0 turns it off",
    ),
    Key(
        name="GENEVA_SPOOL_HORIZON",
        default=timedelta(days=1),
        read=_optional(_duration),
        meaning="steps that are due later than this have no job in Redis yet, housekeeping sends it in time; "
        "`None`: every job is sent at once",
    ),
    Key(
        name="GENEVA_STUCK_SCHEDULED_THRESHOLD",
        default=timedelta(seconds=60),
        read=_duration,
        meaning="overdue this long and without a live job: enqueued again",
    ),
    Key(
        name="GENEVA_STUCK_IN_PROGRESS_THRESHOLD",
        default=timedelta(hours=1),
        read=_duration,
        meaning="in progress this long and liveness unknown: recovered. Known dead: at once. Known alive: never",
    ),
    Key(
        name="GENEVA_STUCK_RECOVERY_ACTION",
        default="reattempt",
        read=_recovery_action,
        meaning='what becomes of a step whose worker died; or `"cancel"`, `"pause"`',
    ),
    Key(
        name="GENEVA_HOUSEKEEPING_INTERVAL",
        default=timedelta(seconds=60),
        read=_optional(_positive_duration),
        meaning="how often one of the workers runs housekeeping; `None`: only when called",
    ),
    Key(
        name="GENEVA_HOUSEKEEPING_BATCH_SIZE",
        default=1000,
        read=_count,
        meaning="rows that housekeeping looks at in one go",
    ),
    Key(
        name="GENEVA_DELETE_COMPLETED_WORKFLOWS_AFTER",
        default=timedelta(days=30),
        read=_optional(_duration),
        meaning="how long an ended workflow is kept; `None` keeps everything",
    ),
    Key(
        name="GENEVA_WAITING_VISIBILITY_THRESHOLD",
        default=timedelta(days=7),
        read=_optional(_duration),
        meaning="a step parked for longer counts as overdue in the gauges; `None`: none does",
    ),
    Key(
        name="GENEVA_MAX_SIGNAL_PAYLOAD_SIZE",
        default=131_072,
        read=_optional(_count),
        meaning="bytes of the serialised JSON; `None`: no limit",
    ),
    Key(
        name="GENEVA_MAX_CURSOR_SIZE",
        default=131_072,
        read=_optional(_count),
        meaning="likewise, of a resumable step's cursor",
    ),
    Key(
        name="GENEVA_CONFIGURE_SQLITE",
        default=True,
        read=_flag,
        meaning="set the application's SQLite engine up for several processes; `False` leaves it alone",
    ),
    Key(
        name="GENEVA_URL_PREFIX",
        default="/geneva",
        read=_url_prefix,
        meaning="where webhooks, dashboard and metrics are found",
    ),
    Key(
        name="GENEVA_WEBHOOK_SECRETS",
        default=[],
        read=_secrets,
        meaning="Standard Webhooks secrets of the built-in signal endpoint; empty: the endpoint answers 404",
        shown=_hidden,
    ),
    Key(
        name="GENEVA_WEBHOOK_TOLERANCE",
        default=timedelta(minutes=5),
        read=_optional(_duration),
        meaning="how old, or how far ahead, a request to the built-in signal endpoint may be; `None`: any age",
    ),
    Key(
        name="GENEVA_WEBHOOK_MAX_BODY_SIZE",
        default=None,
        read=_optional(_count),
        meaning="bytes of a webhook's body; `None`: as `GENEVA_MAX_SIGNAL_PAYLOAD_SIZE`",
    ),
    Key(
        name="GENEVA_WEBHOOK_KEEP_BODIES",
        default=False,
        read=_flag,
        meaning="keep bodies and headers in the log of deliveries, so that they can be replayed",
    ),
    Key(
        name="GENEVA_DASHBOARD_ACCESS",
        default=None,
        read=_anything,
        meaning="called in the request, without arguments: who may see dashboard and metrics. Without it: nobody "
        "outside debug mode",
    ),
    Key(
        name="GENEVA_DASHBOARD_SHOW_PAYLOADS",
        default=True,
        read=_flag,
        meaning="`False` hides payloads and tracebacks in the dashboard",
    ),
)
