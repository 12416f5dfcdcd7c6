"""What stands in a class body until the class exists: a declaration, with its file and line.

A declaration that decorates a method gives way to the method when the class is created. Each class body keeps a
:class:`ClassBody`, so that a declaration that a later definition of the same name replaced is noticed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, MutableMapping
from copy import copy
from dataclasses import dataclass, field
from types import FrameType, FunctionType
from typing import Any, Self

_BODY = "__geneva_body__"
_COMPREHENSIONS = frozenset({"<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>", "<lambda>"})


@dataclass(frozen=True, kw_only=True)
class CallSite:
    """Where a declaration was written, and the names known there when that is a class body."""

    source: str
    namespace: MutableMapping[str, Any] | None


def call_site(depth: int = 2) -> CallSite:
    """Return the place that called the caller of this function."""
    frame = sys._getframe(depth)
    source = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    body: FrameType | None = frame
    while body is not None and body.f_code.co_name in _COMPREHENSIONS:
        body = body.f_back
    return CallSite(source=source, namespace=body.f_locals if body is not None and _is_class_body(body) else None)


def _is_class_body(frame: FrameType) -> bool:
    return not frame.f_code.co_flags & inspect.CO_OPTIMIZED and "__qualname__" in frame.f_locals


class Declaration:
    """The parent of all that can be declared in a class body."""

    keyword = ""

    def __init__(self, site: CallSite, function: Callable[..., Any] | None = None) -> None:
        self.source = site.source
        self.function = function
        self.was_applied = False
        self.replaces_method = False
        self._register(site)

    @property
    def named(self) -> str | None:
        """The name of the method that is declared, where it has one."""
        return getattr(self.function, "__name__", None)

    def __call__(self, function: Callable[..., Any]) -> Self:
        """Decorate a method; one declaration may decorate several."""
        self.was_applied = True
        applied = copy(self)
        applied.was_applied = False
        applied.replaces_method = False
        applied.decorate(function)
        applied._register(call_site())
        return applied

    def decorate(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __set_name__(self, owner: type, name: str) -> None:
        if _BODY not in vars(owner):
            setattr(owner, _BODY, ClassBody())
        class_body_of(owner).bound[name] = self
        if self.function is not None:
            setattr(owner, name, self.function)

    def _register(self, site: CallSite) -> None:
        if site.namespace is None:
            return
        site.namespace.setdefault(_BODY, ClassBody()).made.append(self)
        name = self.named
        if name is not None and name in site.namespace:
            self.replaces_method = plain_function(site.namespace[name]) is not self.function


@dataclass
class ClassBody:
    """The declarations that one class body made, and those that its attributes hold."""

    made: list[Declaration] = field(default_factory=list)
    bound: dict[str, Declaration] = field(default_factory=dict)


def class_body_of(owner: type) -> ClassBody:
    """Return the record of this class alone, without its parents; an empty one when nothing was declared."""
    body = vars(owner).get(_BODY)
    return body if isinstance(body, ClassBody) else ClassBody()


def plain_function(value: Any) -> Any:
    """Return the method that a declaration decorates; any other value as it is."""
    return value.function if isinstance(value, Declaration) and value.function is not None else value


def as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that a class binds to its instances, whatever callable was given."""
    if isinstance(function, FunctionType):
        return function

    def method(self: Any, *arguments: Any) -> Any:
        return function(self, *arguments)

    return method
