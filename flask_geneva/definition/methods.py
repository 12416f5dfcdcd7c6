"""Finding a method of a workflow class by its name, and making sure that it can be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from flask_geneva.definition.signatures import objection_to
from flask_geneva.errors import StepConfigurationError


def find_method(owner: type, name: str, *arguments: str, what: str) -> Callable[..., Any]:
    """Return the method, or raise an error that begins with ``what``; ``arguments`` include ``self``."""
    stored = inspect.getattr_static(owner, name, None)
    if stored is None:
        raise StepConfigurationError(
            f"{what}: {owner.__name__} has no method '{name}'. Define it, or correct the name."
        )
    method: Any = getattr(owner, name)
    if not callable(method) or not hasattr(stored, "__get__") or isinstance(stored, staticmethod | classmethod | type):
        raise StepConfigurationError(
            f"{what}: '{name}' of {owner.__name__} must be an ordinary method, "
            f"def {name}({', '.join(arguments)}), not {stored!r}."
        )
    objection = objection_to(method, *arguments)
    if objection:
        raise StepConfigurationError(f"{what}: method '{name}' of {owner.__name__} {objection}.")
    return method  # type: ignore[no-any-return]
