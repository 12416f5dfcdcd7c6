"""Runs the Python blocks of one page in order, in one namespace: ``python -m tests.docs.page_runner README.md``.

Each page is a process of its own, since pages declare workflow classes of the same name. As soon as the namespace
has a ``create_app``, its application is made, with its tables, and its context is entered.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import types
from dataclasses import dataclass
from pathlib import Path

from tests.docs import preset

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    language: str
    line: int
    code: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text()
    return [
        Block(language=found[1], line=text.count("\n", 0, found.start(2)), code=found[2])
        for found in FENCE.finditer(text)
    ]


def run(page: Path) -> None:
    """Run the page's Python; an error shows the page and the line."""
    module = _module_for(page)
    context = None
    for block in blocks(page):
        if block.language != "python":
            continue
        # The blank lines put the page's own line numbers into tracebacks.
        exec(compile("\n" * block.line + block.code, str(page), "exec"), module.__dict__)
        if context is None and "create_app" in module.__dict__:
            context = _enter(module)
    if context is not None:
        context.pop()


def _module_for(page: Path) -> types.ModuleType:
    """A module of its own for the page; the pages below ``docs/`` begin with the names of the preset."""
    module = types.ModuleType("shop")
    module.__file__ = str(Path.cwd() / "shop.py")
    if page.parent.name == "docs":
        module.__dict__.update({name: value for name, value in vars(preset).items() if not name.startswith("__")})
    sys.modules["shop"] = module
    return module


def _enter(module: types.ModuleType):  # type: ignore[no-untyped-def]
    app = module.create_app()
    app.config["GENEVA_ENQUEUE"] = False
    context = app.app_context()
    context.push()
    module.db.create_all()
    return context


def main() -> None:
    """Run the page named, in an empty folder."""
    page = (ROOT / sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run(page)
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
