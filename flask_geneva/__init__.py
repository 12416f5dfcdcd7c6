"""Durable, multi-step workflows for Flask, on the SQLAlchemy database, Redis and RQ workers you already run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flask_geneva.definition.conditions import cancel_if
from flask_geneva.definition.exception_policies import ExceptionPolicy, on_exception
from flask_geneva.definition.signal_matchers import SignalMatcher
from flask_geneva.definition.steps import removed_step, resumable_step, step
from flask_geneva.engine.iteration import IterableStep
from flask_geneva.errors import (
    ConfigurationError,
    CursorTooLarge,
    DeadlineExceeded,
    GenevaError,
    HeroMissing,
    InvalidSignal,
    InvalidStateError,
    MigrationMissing,
    PayloadNotSerializable,
    ReferencedRecordMissing,
    SignalPayloadTooLarge,
    StepConfigurationError,
    StepNotDefinedError,
    StepTimeout,
    WorkflowAlreadyOngoing,
    WorkflowNotDefinedError,
    WorkflowNotOngoing,
)
from flask_geneva.extension import Geneva
from flask_geneva.records.signal import Signal
from flask_geneva.records.step_execution import StepExecution
from flask_geneva.states import Outcome, SignalState, StepState, WorkflowState
from flask_geneva.workflow import Workflow

if TYPE_CHECKING:
    from flask_geneva.worker.worker import GenevaWorker

__all__ = [
    "ConfigurationError",
    "CursorTooLarge",
    "DeadlineExceeded",
    "ExceptionPolicy",
    "Geneva",
    "GenevaError",
    "GenevaWorker",
    "HeroMissing",
    "InvalidSignal",
    "InvalidStateError",
    "IterableStep",
    "MigrationMissing",
    "Outcome",
    "PayloadNotSerializable",
    "ReferencedRecordMissing",
    "Signal",
    "SignalMatcher",
    "SignalPayloadTooLarge",
    "SignalState",
    "StepConfigurationError",
    "StepExecution",
    "StepNotDefinedError",
    "StepState",
    "StepTimeout",
    "Workflow",
    "WorkflowAlreadyOngoing",
    "WorkflowNotDefinedError",
    "WorkflowNotOngoing",
    "WorkflowState",
    "cancel_if",
    "on_exception",
    "removed_step",
    "resumable_step",
    "step",
]


def __getattr__(name: str) -> Any:
    """Import the worker when it is asked for: a web process never needs it."""
    if name == "GenevaWorker":
        return import_module("flask_geneva.worker.worker").GenevaWorker
    raise AttributeError(f"module 'flask_geneva' has no attribute {name!r}")
