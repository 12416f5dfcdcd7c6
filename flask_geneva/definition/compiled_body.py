"""What the compiled code of a class body tells that the finished class does not: names that were defined twice."""

from __future__ import annotations

import dis
from collections import Counter
from types import CodeType


def methods_defined_twice(code: CodeType) -> set[str]:
    """Return the names of functions that ``def`` defines more than once, each time without a condition.

    Definitions in the branches of an ``if`` or a ``try`` are left alone, since one of them runs.
    """
    instructions = list(dis.get_instructions(code))
    jumps = [(each.offset, each.argval) for each in instructions if each.opcode in _JUMPS]
    found: Counter[str] = Counter(
        each.argval.co_name
        for each in instructions
        if isinstance(each.argval, CodeType) and not any(start < each.offset < end for start, end in jumps)
    )
    return {name for name, count in found.items() if count > 1 and name.isidentifier()}


def name_given_after(code: CodeType, offset: int) -> str | None:
    """Return the name that the value computed by the instruction at ``offset`` is given, if it is given one."""
    for each in dis.get_instructions(code):
        if each.offset > offset and each.opname in _USES_OF_A_VALUE:
            return str(each.argval) if each.opname == "STORE_NAME" else None
    return None


_USES_OF_A_VALUE = frozenset({"STORE_NAME", "POP_TOP"})
_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
