"""``job_options``: what RQ is told about the job of a step, on the class, the instance or the step."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from flask_geneva.definition.durations import read_duration, read_positive_duration
from flask_geneva.definition.options import read_name, refuse_unknown
from flask_geneva.errors import StepConfigurationError


def read_job_options(options: object, where: str) -> dict[str, Any]:
    """Check options as a user gave them; an option that is None counts as not given.

    Durations come back as whole seconds, so that the result can be stored as JSON when ``meta`` can.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise StepConfigurationError(
            f"{where}: job_options must be a mapping such as {{'queue': 'mail'}}, not {options!r}."
        )
    refuse_unknown(
        (each if isinstance(each, str) else repr(each) for each in options), _READERS, where=f"{where}: job_options"
    )
    return {
        key: _READERS[key](value, f"{where}: job_options['{key}']")
        for key, value in options.items()
        if value is not None
    }


def read_own_job_options(options: object, where: str) -> dict[str, Any]:
    """Check the options of one workflow, which are stored with it, likewise; ``meta`` must be JSON then."""
    read = read_job_options(options, where)
    try:
        json.dumps(read)
    except (TypeError, ValueError) as error:
        raise StepConfigurationError(
            f"{where}: job_options['meta'] is stored with the workflow as JSON, and cannot be: {error}. Keep to str, "
            f"numbers, bool, None, lists and dicts."
        ) from error
    return read


def merge_job_options(*levels: Mapping[str, Any]) -> dict[str, Any]:
    """Merge checked options; of a key that several levels give the last one wins."""
    return {key: value for level in levels for key, value in level.items()}


def _read_seconds(value: object, what: str) -> int:
    return math.ceil(read_duration(value, what=what, allow_none=False).total_seconds())


def _read_positive_seconds(value: object, what: str) -> int:
    return math.ceil((read_positive_duration(value, what=what) or timedelta(0)).total_seconds())


def _read_lifetime(value: object, what: str) -> int:
    """RQ's -1 keeps the result of a job for ever."""
    return -1 if value == -1 else _read_seconds(value, what)


def _read_flag(value: object, what: str) -> bool:
    if isinstance(value, bool):
        return value
    raise StepConfigurationError(f"{what} must be True or False, not {value!r}.")


def _read_text(value: object, what: str) -> str:
    if isinstance(value, str):
        return value
    raise StepConfigurationError(f"{what} must be a str, not {value!r}.")


def _read_queue(value: object, what: str) -> str:
    return read_name(value, what=what)


def _read_meta(value: object, what: str) -> dict[str, Any]:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise StepConfigurationError(f"{what} must be a mapping with str keys, not {value!r}.")


_READERS: Mapping[str, Callable[[object, str], Any]] = {
    "queue": _read_queue,
    "timeout": _read_positive_seconds,
    "at_front": _read_flag,
    "ttl": _read_positive_seconds,
    "result_ttl": _read_lifetime,
    "failure_ttl": _read_lifetime,
    "description": _read_text,
    "meta": _read_meta,
}
