"""What would make the code rot: layers crossed, a second writer of state, a stray commit, undocumented names."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import flask_geneva
from flask_geneva.config import KEYS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "flask_geneva"
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40

MAY_COMMIT = (
    "engine/executor.py",
    "engine/checkpoints.py",
    "engine/iteration.py",
    "housekeeping/run.py",
    "webhooks/views.py",
    "dashboard/views.py",
    "cli/",
    "testing/",
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_modules_import_only_from_the_layers_below() -> None:
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True) == 0


def test_state_is_written_in_one_place() -> None:
    # An error keeps the state that it was raised for; it is no row.
    assert places(writes_state, allowed=["records/transitions.py", "errors.py"]) == []


def test_only_entry_points_commit() -> None:
    assert places(commits, allowed=MAY_COMMIT) == []


def test_rows_are_locked_in_one_place() -> None:
    assert places(lambda node: mentions(node, "with_for_update"), allowed=["engine/transactions.py"]) == []


def test_there_is_one_clock() -> None:
    assert places(reads_the_clock, allowed=["engine/runtime.py"]) == []


def test_no_file_is_too_long() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in modules()}

    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    lengths = {
        f"{name}:{node.lineno} {node.name}": body_lines(node)
        for name, path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, Function)
    }

    assert {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES} == {}


def test_the_public_names_are_sorted_and_documented() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", section("docs/api.md", "Names"), flags=re.MULTILINE)

    assert list(flask_geneva.__all__) == sorted(flask_geneva.__all__)
    assert sorted(documented) == list(flask_geneva.__all__)


@pytest.mark.parametrize("name", flask_geneva.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    assert getattr(flask_geneva, name).__doc__


@pytest.mark.parametrize("name", flask_geneva.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    reference = (ROOT / "docs/reference.md").read_text()
    described = f":: flask_geneva.{name}\n" in reference
    is_error = getattr(flask_geneva, name).__module__ == "flask_geneva.errors"

    assert described or (is_error and "automodule:: flask_geneva.errors" in reference)


def test_every_config_key_is_in_the_table_of_the_readme() -> None:
    keys = [key.name for key in KEYS]
    documented = re.findall(r"^\| `(GENEVA_\w+)` \|", section("README.md", "Configuration"), flags=re.MULTILINE)

    assert documented == keys


def test_no_two_tests_call_their_workflow_the_same() -> None:
    # Rows are told apart by the class's name; in one run, the second class of a name is stored by another one.
    # What is deployed over something else has its name by design, and is loaded by a process of its own.
    files = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path.parent.name != "deploys"]
    names = Counter(name for path in files for name in workflows_in(ast.parse(path.read_text())))

    assert [name for name, times in names.items() if times > 1] == []


def workflows_in(module: ast.Module) -> list[str]:
    """The classes whose base is called a workflow, or is one of the classes above."""
    found: list[str] = []
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            if any("Workflow" in base or base in found for base in bases):
                found.append(node.name)
    return found


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package, with its path from the package's folder."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), path


def places(found: Callable[[ast.AST], bool], *, allowed: tuple[str, ...] | list[str]) -> list[str]:
    """Where the package has a node of this kind, outside the files (or folders) where it may."""
    return [
        f"{name}:{getattr(node, 'lineno', '?')}"
        for name, path in modules()
        if not name.startswith(tuple(allowed))
        for node in ast.walk(ast.parse(path.read_text()))
        if found(node)
    ]


def writes_state(node: ast.AST) -> bool:
    """``row.state = …``, ``setattr(row, "state", …)`` or ``.values(state=…)``."""
    if isinstance(node, ast.Assign):
        return any(is_state(part) for target in node.targets for part in ast.walk(target))
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        return is_state(node.target)
    if not isinstance(node, ast.Call):
        return False
    if calls(node, "values"):
        return any(keyword.arg == "state" for keyword in node.keywords)
    named = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    return isinstance(node.func, ast.Name) and node.func.id == "setattr" and "state" in named


def is_state(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "state"


def commits(node: ast.AST) -> bool:
    """A commit of a transaction; releasing a savepoint is none."""
    return calls(node, "commit") and not (isinstance(node.func.value, ast.Name) and node.func.value.id == "savepoint")  # type: ignore[attr-defined]


def calls(node: ast.AST, method: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def mentions(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.keyword):
        return node.arg == name
    return isinstance(node, ast.Attribute) and node.attr == name


def reads_the_clock(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr not in {"now", "utcnow", "today"}:
        return False
    owner = node.value
    return (owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")) in {"datetime", "date"}


def body_lines(function: Function) -> int:
    """The lines of a function without its decorators and its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def section(page: str, heading: str) -> str:
    """What stands below a heading of a page, down to the next of its level or above."""
    text = (ROOT / page).read_text()
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,2}} |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no heading '{heading}'"
    return found[2]
