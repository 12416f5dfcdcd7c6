"""Reading single option values: the marker for "not given", choices, counts, unknown keywords."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Final

from flask_geneva.errors import StepConfigurationError

LONGEST_NAME = 255


class Unset(Enum):
    """The type of :data:`UNSET`."""

    UNSET = "not given"

    def __repr__(self) -> str:
        return "<not given>"


UNSET: Final = Unset.UNSET


def was_given(value: object) -> bool:
    return value is not UNSET and value is not None


def listing(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def read_choice(value: object, choices: Collection[str], *, what: str) -> str:
    if isinstance(value, str) and value in choices:
        return value
    raise StepConfigurationError(f"{what} must be one of {listing(choices)}, not {value!r}.")


def read_positive_integer(value: object, *, what: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise StepConfigurationError(f"{what} must be a positive integer, or None for no limit, not {value!r}.")


def read_name(value: object, *, what: str) -> str:
    if isinstance(value, str) and value and len(value) <= LONGEST_NAME:
        return value
    raise StepConfigurationError(f"{what} must be a non-empty str of at most {LONGEST_NAME} characters, not {value!r}.")


def refuse_unknown(given: Iterable[str], known: Collection[str], *, where: str) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise StepConfigurationError(
            f"{where}: unknown option {listing(unknown)}. The options are: {', '.join(known)}."
        )
