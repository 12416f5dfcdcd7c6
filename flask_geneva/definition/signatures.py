"""Whether a function that a user hands in can be called in the way it is going to be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable


def objection_to(function: Callable[..., object], *arguments: str) -> str | None:
    """Say why ``function`` cannot be called with these arguments for its effect, or None when it can."""
    if _is_a(function, inspect.iscoroutinefunction, inspect.isasyncgenfunction):
        return "is 'async def', and nothing would await it; make it a plain 'def' (asyncio.run() may be called in it)"
    if _is_a(function, inspect.isgeneratorfunction):
        return "contains 'yield', so that a call of it would run nothing; make it a plain 'def' without 'yield'"
    if not accepts(function, len(arguments)):
        return f"cannot be called with ({', '.join(arguments)}); declare it with just these arguments"
    return None


def accepts(function: Callable[..., object], count: int) -> bool:
    """Whether ``count`` positional arguments suffice; a callable without a readable signature is trusted."""
    try:
        # The wrapper's own signature: a decorator that injects arguments changes what the caller has to pass.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _is_a(function: Callable[..., object], *kinds: Callable[[object], bool]) -> bool:
    return any(kind(candidate) for kind in kinds for candidate in (function, type(function).__call__))
