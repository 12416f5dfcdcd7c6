"""``flask geneva graph``: the steps of a workflow class as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import click

from flask_geneva.cli.group import OneLine, in_application
from flask_geneva.cli.options import as_json_option, check_class
from flask_geneva.cli.printing import print_json
from flask_geneva.definition.signal_matchers import describe
from flask_geneva.definition.step_sequence import StepSequence
from flask_geneva.definition.steps import StepDefinition
from flask_geneva.engine.explanation import in_words
from flask_geneva.engine.runtime import current_runtime


@click.command("graph")
@click.argument("class_name", metavar="CLASS")
@as_json_option
@in_application
def draw_graph(class_name: str, as_json: bool) -> None:
    """Print the steps of a workflow class as a Mermaid flowchart, for documentation."""
    runtime = current_runtime()
    declared = runtime.class_named(class_name)
    if declared is None:
        check_class(class_name, runtime.session(), runtime)
        raise OneLine(f"The class '{class_name}' has rows, but no loaded module declares it.")
    steps: StepSequence = declared.definition.steps
    drawing = "\n".join(_lines(steps))
    if as_json:
        print_json(
            {"class": declared.definition.name, "steps": [_facts(step) for step in steps.values()], "mermaid": drawing}
        )
        return
    click.echo(drawing)


def _lines(steps: StepSequence) -> Iterator[str]:
    yield "flowchart TD"
    yield "    start([start])"
    before = "start"
    for number, step in enumerate(steps.runnable, start=1):
        # A step may be called like a word of Mermaid's, such as 'end'; a number is none.
        node = f"s{number}"
        left, right = ("[[", "]]") if step.resumable else ("[", "]")
        yield f'    {before} --> {node}{left}"{_label(step)}"{right}'
        if step.deadline is not None:
            yield f'    {node} -. "after {in_words(step.deadline)}: {step.on_deadline}" .-> {node}_late(( ))'
        before = node
    yield f"    {before} --> finished([finished])"


def _label(step: StepDefinition) -> str:
    notes = [step.name]
    if step.wait:
        notes.append(f"after {in_words(step.wait)}")
    if step.waits_for_signal:
        notes.append(f"waits for {describe(step.wait_for)}")
    if step.condition is not None:
        notes.append("may be skipped")
    return "<br/>".join(_escaped(note) for note in notes)


def _escaped(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")


def _facts(step: StepDefinition) -> dict[str, object]:
    return {
        "name": step.name,
        "source": step.source,
        "removed": step.removed,
        "resumable": step.resumable,
        "wait": _seconds(step.wait),
        "waits_for": describe(step.wait_for) if step.waits_for_signal else None,
        "deadline": _seconds(step.deadline),
        "on_deadline": step.on_deadline if step.deadline is not None else None,
        "conditional": step.condition is not None,
    }


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
