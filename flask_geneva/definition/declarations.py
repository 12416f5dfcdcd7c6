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
from types import CodeType, FrameType, FunctionType
from typing import Any, Self

_BODY = "__geneva_body__"
_COMPREHENSIONS = frozenset({"<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>", "<lambda>"})


@dataclass(frozen=True, kw_only=True)
class CallSite:
    """Where a declaration was written; the rest is that of the class body, when it is in one."""

    source: str
    namespace: MutableMapping[str, Any] | None = None
    code: CodeType | None = None
    offset: int = 0


def call_site(depth: int = 2) -> CallSite:
    """Return the place that called the caller of this function."""
    frame = sys._getframe(depth)
    source = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    body: FrameType | None = frame
    while body is not None and body.f_code.co_name in _COMPREHENSIONS:
        body = body.f_back
    if body is None or not _is_class_body(body):
        return CallSite(source=source)
    return CallSite(source=source, namespace=body.f_locals, code=body.f_code, offset=body.f_lasti)


def _is_class_body(frame: FrameType) -> bool:
    return not frame.f_code.co_flags & inspect.CO_OPTIMIZED and "__qualname__" in frame.f_locals


class Declaration:
    """The parent of all that can be declared in a class body; ``target`` is what the user handed in."""

    keyword = ""

    def __init__(self, site: CallSite, target: object = None) -> None:
        self.was_applied = False
        self.misplaced: object = None
        self._aim_at(target, site)

    @property
    def named(self) -> str | None:
        """The name of the method that is declared, where it has one."""
        return getattr(self.function, "__name__", None)

    def function_of(self, target: Any) -> Callable[..., Any] | None:
        return plain_function(target) if callable(plain_function(target)) else None

    def __call__(self, method: Callable[..., Any]) -> Self:
        """Decorate a method; one declaration may decorate several."""
        self.was_applied = True
        applied = copy(self)
        applied.was_applied = False
        applied.misplaced = self.target
        applied._aim_at(method, call_site())
        return applied

    def __set_name__(self, owner: type, name: str) -> None:
        if _BODY not in vars(owner):
            setattr(owner, _BODY, ClassBody())
        class_body_of(owner).bound[name] = self
        if self.function is not None:
            setattr(owner, name, self.function)

    def _aim_at(self, target: object, site: CallSite) -> None:
        self.target = target
        self.function = self.function_of(target)
        self.source = site.source
        self.offset = site.offset
        self.replaces_method = False
        if site.namespace is None:
            return
        body = site.namespace.setdefault(_BODY, ClassBody(code=site.code))
        body.made.append(self)
        if self.named is not None and self.named in site.namespace:
            self.replaces_method = plain_function(site.namespace[self.named]) is not self.function


@dataclass
class ClassBody:
    """The declarations that one class body made, those that its attributes hold, and its compiled code."""

    made: list[Declaration] = field(default_factory=list)
    bound: dict[str, Declaration] = field(default_factory=dict)
    code: CodeType | None = None


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
