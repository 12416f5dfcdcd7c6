"""Every error that the library raises, as one tree under :class:`GenevaError`.

A message says what was tried, on what, why it cannot be, and what to do. The facts it was made of stay
readable as attributes.
"""

from __future__ import annotations

from collections.abc import Iterable


class GenevaError(Exception):
    """The parent of every error of this library."""


class ConfigurationError(GenevaError):
    """The extension was set up wrongly: a ``GENEVA_`` value, a missing extension, an unreadable secret."""


class StepConfigurationError(GenevaError):
    """A workflow definition, or a value that it is built of, is wrong; raised when the class is created."""


class InvalidStateError(GenevaError):
    """A verb was called on a workflow, or in a place, where it cannot be."""


class InvalidStateTransition(GenevaError):
    """The engine tried to write a state that may not follow the present one: a defect in the engine."""


class HeroMissing(GenevaError):
    """A workflow class that needs a hero was created without one."""

    def __init__(self, workflow_name: str) -> None:
        self.workflow_name = workflow_name
        super().__init__(
            f"Cannot create {workflow_name}: no hero was given. Pass hero=..., "
            f"or set 'may_proceed_without_hero = True' on the class."
        )


class WorkflowAlreadyOngoing(GenevaError):
    """The class has an ongoing workflow for this hero already; it is the attribute ``workflow``."""

    def __init__(self, workflow_name: str, hero: str, workflow: object, *, is_named_twice: bool = False) -> None:
        self.workflow_name = workflow_name
        self.workflow = workflow
        identity = getattr(workflow, "id", None)
        which = f" (#{identity})" if identity is not None else ""
        why = "it is named twice" if is_named_twice else f"an ongoing one exists{which}"
        how = "Name each hero once" if is_named_twice else "Use get_or_create() to get that one"
        super().__init__(
            f"Cannot create {workflow_name} for {hero}: {why}. {how}, or pass allow_multiple=True to have several."
        )


class WorkflowNotOngoing(GenevaError):
    """A new signal was sent to a workflow that is finished or canceled."""

    def __init__(self, workflow_name: str, workflow_id: int, state: str, signal_name: str) -> None:
        self.workflow_name = workflow_name
        self.workflow_id = workflow_id
        self.state = state
        self.signal_name = signal_name
        super().__init__(
            f"Cannot deliver signal '{signal_name}' to {workflow_name} #{workflow_id}: the workflow is {state}. "
            f"Send it to an ongoing workflow; ongoing_for(hero) finds it."
        )


class StepNotDefinedError(GenevaError):
    """A row or a caller names a step that the workflow class does not define (or that it removed)."""

    def __init__(
        self,
        action: str,
        workflow_name: str,
        step_name: str | None,
        defined: Iterable[str],
        *,
        removed: bool = False,
        workflow: object = None,
        execution: object = None,
    ) -> None:
        self.workflow_name = workflow_name
        self.step_name = step_name
        self.workflow = workflow
        self.execution = execution
        names = ", ".join(defined) or "none"
        fact = (
            f"step '{step_name}' is a removed_step in {workflow_name}"
            if removed
            else f"step '{step_name}' is not defined in {workflow_name}"
        )
        super().__init__(
            f"Cannot {action}: {fact}. The steps defined are: {names}. Continue from one of them with "
            f"resume_at('step'), cancel the workflow, or declare '{step_name} = removed_step()' where the step stood."
        )


class WorkflowNotDefinedError(GenevaError):
    """A row belongs to a workflow class that no module loaded by this process declares."""

    def __init__(self, type_name: str, workflow_id: int | None, action: str = "run") -> None:
        self.type_name = type_name
        self.workflow_id = workflow_id
        super().__init__(
            f"Cannot {action} workflow #{workflow_id}: no class named '{type_name}' is declared in this process. "
            f"Import the module that declares it in the application factory, declare the class again, or cancel the "
            f"workflow."
        )


class DeadlineExceeded(GenevaError):
    """No signal arrived before the deadline of a step that waited for one."""

    def __init__(self, workflow_name: str, workflow_id: int, step_name: str, awaited: str) -> None:
        self.step_name = step_name
        super().__init__(
            f"{workflow_name} #{workflow_id} waited on step '{step_name}' for {awaited} until its deadline passed. "
            f"Send the signal and resume, or skip or cancel."
        )


class InvalidSignal(GenevaError, ValueError):
    """A signal's name or key is empty, too long or no string; nothing was stored."""


class SignalPayloadTooLarge(GenevaError):
    """The serialised payload of a signal is above ``GENEVA_MAX_SIGNAL_PAYLOAD_SIZE``; nothing was stored."""


class CursorTooLarge(GenevaError):
    """The serialised cursor of a resumable step is above ``GENEVA_MAX_CURSOR_SIZE``; it was not stored."""


class NoProgress(GenevaError):
    """A resumable step was interrupted again and again without its cursor having moved."""

    def __init__(self, step_name: str, times: int) -> None:
        self.step_name = step_name
        super().__init__(
            f"Step '{step_name}' was interrupted {times} times in a row without its cursor changing. Let it "
            f"make a checkpoint before it is interrupted (raise max_runtime, or move the cursor more often), then "
            f"resume."
        )


class WorkTakenBack(GenevaError):
    """A resumable step ended the transaction that held the work on items which no checkpoint had stored yet."""

    def __init__(self, step_name: str, items: int) -> None:
        self.step_name = step_name
        self.items = items
        done = "an item that was" if items == 1 else f"{items} items that were"
        super().__init__(
            f"Step '{step_name}' rolled back or closed its transaction, and with it the work on {done} done since the "
            f"last checkpoint. Use a savepoint (db.session.begin_nested()) for what may be taken back, or a checkpoint "
            f"after each item (checkpoint_every=1), then resume: the step goes on from its last checkpoint."
        )


class WorkerDied(GenevaError):
    """The process that ran a step is gone, and the step with it."""

    def __init__(self, cause: str, deaths: int = 0) -> None:
        self.cause = cause
        self.deaths = deaths
        again = f" That makes {deaths} deaths of this step in a row." if deaths > 1 else ""
        super().__init__(f"The worker process died, {cause}, while it ran the step.{again}")


class MigrationMissing(GenevaError):
    """The database lacks a table or a column that this operation needs."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The database lacks {what}. Run 'flask geneva install' and then 'flask db upgrade' "
            f"(or call geneva.create_all() where there is no Alembic)."
        )


class PayloadNotSerializable(GenevaError):
    """A payload or a cursor holds a value that cannot be stored as JSON."""


class ReferencedRecordMissing(GenevaError):
    """A stored value refers to a record, a class or an enum member that is gone."""


class StepTimeout(BaseException):
    """The step ran longer than its job's timeout.

    A ``BaseException``, so that ``except Exception`` in the step cannot swallow it; policies treat it as an error.
    """
