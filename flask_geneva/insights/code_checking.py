"""The code by itself, without rows: what would go wrong with any, and what would be hard to change with some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flask_geneva.engine.runtime import Runtime
from flask_geneva.insights.findings import Finding, Report
from flask_geneva.insights.listing import declared_classes


def check_code_alone(runtime: Runtime) -> Report:
    """Look at the workflow classes that are loaded; reads no database."""
    classes = declared_classes(runtime)
    advice = (*named_by_path(classes), *_numbered(classes))
    return Report(problems=() if classes else (_no_class(runtime),), advice=advice)


def _no_class(runtime: Runtime) -> Finding:
    text = (
        f"The application '{runtime.app.name}' has no workflow class loaded, so that a worker would pause whatever it "
        f"meets. Import the modules that declare them in the application factory."
    )
    return Finding(kind="no_class", text=text, class_name="")


def named_by_path(classes: dict[str, type[Any]]) -> Iterator[Finding]:
    """Which of two classes of one name is stored by its path depends on which is imported first."""
    for name, declared in classes.items():
        if name == f"{declared.__module__}.{declared.__qualname__}" and "__workflow_name__" not in vars(declared):
            text = (
                f"{name} is stored by its path, for another class is called {declared.__name__}, too, and was imported "
                f"first. Set '__workflow_name__' on one of the two, so that the order of imports decides nothing."
            )
            yield Finding(kind="named_by_path", text=text, class_name=name)


def _numbered(classes: dict[str, type[Any]]) -> Iterator[Finding]:
    told: set[tuple[str, str]] = set()
    for name, declared in classes.items():
        for step in declared.definition.steps.values():
            if step.numbered_in is None or (step.numbered_in, step.source.partition(":")[0]) in told:
                continue
            told.add((step.numbered_in, step.source.partition(":")[0]))
            text = (
                f"The steps of '{step.numbered_in}' in {name} ({step.source}) are named by their place in the list. "
                f"Give them name= before you put one among them or take one out: workflows in flight know the number."
            )
            yield Finding(kind="numbered_steps", text=text, class_name=name, step_name=step.name)
