"""The steps of a workflow class in the order in which they run, and the way from one to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from flask_geneva.definition.steps import StepDefinition
from flask_geneva.errors import StepConfigurationError


class StepSequence(Mapping[str, StepDefinition]):
    """The steps by name, in order; removed steps keep their place and are passed over."""

    def __init__(self, steps: Iterable[StepDefinition] = ()) -> None:
        self._steps = tuple(steps)
        self._places = {step.name: place for place, step in enumerate(self._steps)}

    def __getitem__(self, name: str) -> StepDefinition:
        return self._steps[self._places[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        names = (step.name if step.runnable else f"{step.name} (removed)" for step in self._steps)
        return f"<StepSequence: {', '.join(names)}>"

    @property
    def runnable(self) -> list[StepDefinition]:
        """The steps that run."""
        return [step for step in self._steps if step.runnable]

    @property
    def removed(self) -> list[StepDefinition]:
        """The gravestones."""
        return [step for step in self._steps if step.removed]

    def first(self) -> StepDefinition | None:
        """Return the step that a workflow begins with; None when there is none."""
        return _first_runnable(self._steps)

    def next_after(self, name: str | None) -> StepDefinition | None:
        """Return the next step that runs; after None it is the first, after an unknown name there is none."""
        if name is None:
            return self.first()
        place = self._places.get(name)
        return None if place is None else _first_runnable(self._steps[place + 1 :])

    def previous_before(self, name: str | None) -> StepDefinition | None:
        """Return the nearest earlier step that runs; before None and before an unknown name there is none."""
        place = None if name is None else self._places.get(name)
        return None if place is None else _first_runnable(reversed(self._steps[:place]))


def place(known: Iterable[StepDefinition], declared: Iterable[StepDefinition], where: str) -> list[StepDefinition]:
    """Put the steps that a class declares behind the known ones, and those with before or after at their anchor.

    Of several steps after one anchor the one that is declared last comes first; before one anchor they keep their
    order. An anchor must be known, or be declared earlier.
    """
    placed = list(known)
    declared = list(declared)
    _check_anchors([step.name for step in placed], declared, where)
    placed += [step for step in declared if _anchor_of(step) is None]
    for step in declared:
        anchor = _anchor_of(step)
        if anchor is not None:
            at = [each.name for each in placed].index(anchor)
            placed.insert(at if step.before is not None else at + 1, step)
    return placed


def _check_anchors(names: list[str], declared: Iterable[StepDefinition], where: str) -> None:
    for step in declared:
        if step.before is not None and step.after is not None:
            raise StepConfigurationError(
                f"{where}, step '{step.name}' ({step.source}): cannot have both before and after. Keep one of them."
            )
        anchor = _anchor_of(step)
        if anchor is not None and anchor not in names:
            option = "before" if step.before is not None else "after"
            raise StepConfigurationError(
                f"{where}, step '{step.name}' ({step.source}): {option}='{anchor}' names no step that is defined "
                f"already. Only steps of parent classes and steps further up in the class can be named: "
                f"{', '.join(names) or 'there are none'}."
            )
        names.append(step.name)


def _anchor_of(step: StepDefinition) -> str | None:
    return step.after if step.before is None else step.before


def _first_runnable(steps: Iterable[StepDefinition]) -> StepDefinition | None:
    return next((step for step in steps if step.runnable), None)
