"""The gauges as Prometheus text at ``<prefix>/metrics``.

The format is the text exposition format of Prometheus, version 0.0.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flask import Blueprint
from flask.typing import ResponseReturnValue

from flask_geneva.dashboard.access import Access, let_in
from flask_geneva.engine.runtime import Runtime
from flask_geneva.insights.gauges import ClassGauges, Gauges, read_gauges

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True)
class _Metric:
    name: str
    meaning: str
    value: Callable[[ClassGauges], float | None]


_PER_CLASS = (
    _Metric("paused_ratio", "Share of the workflows of a class that are paused.", lambda each: each.paused_ratio),
    _Metric("waiting_step_executions", "Steps that are parked until a signal arrives.", lambda each: each.waiting),
    _Metric("waiting_overdue", "Steps that are parked for too long.", lambda each: each.waiting_overdue),
    _Metric("overdue_scheduled", "Steps that are overdue.", lambda each: each.overdue_scheduled),
    _Metric(
        "oldest_overdue_age_seconds",
        "For how long the oldest overdue step is due.",
        lambda each: each.oldest_overdue_age_seconds,
    ),
)


def metrics_blueprint(runtime: Runtime, access: Callable[[], Access | None]) -> Blueprint:
    """Make the route; ``access`` is asked at each request, since the application may set it late."""
    blueprint = Blueprint("geneva_metrics", __name__)

    @blueprint.get("/metrics")
    def metrics() -> ResponseReturnValue:
        refusal = let_in(access())
        if refusal is not None:
            return refusal
        text = "\n".join(exposition(read_gauges(runtime.session(), runtime)))
        return f"{text}\n", 200, {"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}

    return blueprint


def exposition(gauges: Gauges) -> Iterator[str]:
    """Write the gauges, line by line."""
    yield from _head("workflows", "Workflows by class and state.")
    for name, each in gauges.classes.items():
        for state, number in each.workflows.items():
            yield f'geneva_workflows{{workflow_class="{name.translate(_ESCAPES)}",state="{state}"}} {number}'
    for metric in _PER_CLASS:
        yield from _head(metric.name, metric.meaning)
        for name, each in gauges.classes.items():
            value = metric.value(each)
            if value is not None:
                yield f'geneva_{metric.name}{{workflow_class="{name.translate(_ESCAPES)}"}} {value:g}'


def _head(name: str, meaning: str) -> Iterator[str]:
    yield f"# HELP geneva_{name} {meaning}"
    yield f"# TYPE geneva_{name} gauge"
