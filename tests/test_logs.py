"""The facts of a workflow, in the text of each log line and as fields of its record."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from flask_geneva.logs import StepLogger, logger_for


@pytest.fixture
def step_logger(caplog: pytest.LogCaptureFixture) -> StepLogger:
    """The logger of one attempt at a step, with everything recorded."""
    caplog.set_level(logging.DEBUG, logger="flask_geneva")
    return logger_for("OrderFulfillment", 4, "Order", "50%", execution_id=12, step_name="ship")


def test_a_line_in_a_step_names_all_of_it(step_logger: StepLogger, caplog: pytest.LogCaptureFixture) -> None:
    # OBS-02 OBS-03
    step_logger.info("sent %d parcels", 2)

    (record,) = caplog.records
    assert record.getMessage() == "[OrderFulfillment #4 Order 50%, ship #12] sent 2 parcels"
    assert record.name == "flask_geneva.workflow.OrderFulfillment"
    facts = {name: getattr(record, name) for name in ("workflow_class", "workflow_id", "hero_type", "hero_id")}
    assert facts == {"workflow_class": "OrderFulfillment", "workflow_id": 4, "hero_type": "Order", "hero_id": "50%"}
    assert (record.execution_id, record.step_name) == (12, "ship")  # type: ignore[attr-defined]


def test_a_line_outside_a_step_names_the_workflow(caplog: pytest.LogCaptureFixture) -> None:
    # OBS-01
    caplog.set_level(logging.INFO, logger="flask_geneva")

    logger_for("Cleanup", 3, None, None).info("done")

    (record,) = caplog.records
    assert record.getMessage() == "[Cleanup #3] done"
    assert record.execution_id is None  # type: ignore[attr-defined]


def test_the_callers_own_fields_are_kept(step_logger: StepLogger, caplog: pytest.LogCaptureFixture) -> None:
    step_logger.warning("slow", extra={"seconds": 9})

    (record,) = caplog.records
    assert (record.seconds, record.workflow_id) == (9, 4)  # type: ignore[attr-defined]


def test_a_per_cent_sign_is_not_taken_for_an_argument(
    step_logger: StepLogger, caplog: pytest.LogCaptureFixture
) -> None:
    step_logger.info("100% done")

    assert caplog.messages == ["[OrderFulfillment #4 Order 50%, ship #12] 100% done"]


def test_the_record_names_the_line_of_the_caller(step_logger: StepLogger, caplog: pytest.LogCaptureFixture) -> None:
    step_logger.info("by its level")
    step_logger.log(logging.INFO, "by a number")

    assert {record.filename for record in caplog.records} == {Path(__file__).name}


def test_an_exception_is_logged_with_its_traceback(step_logger: StepLogger, caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("no parcel")
    except ValueError:
        step_logger.exception("failed")

    assert "[OrderFulfillment #4 Order 50%, ship #12] failed" in caplog.text
    assert "ValueError: no parcel" in caplog.text


def test_a_heros_key_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="flask_geneva")

    logger_for("Cleanup", 3, "Page", "x\nERROR all is lost").info("done")

    assert caplog.messages == [r"[Cleanup #3 Page x\nERROR all is lost] done"]


def test_nothing_is_composed_when_the_level_is_off() -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("composed for nobody")

    logger = logger_for("Cleanup", 3, "Page", None, base=logging.Logger("quiet", level=logging.ERROR))

    logger.info(Costly())

    assert "prefix" not in vars(logger)


def test_a_logger_of_the_applications_own_can_be_the_base() -> None:
    # OBS-04
    base = logging.Logger("shop")

    assert logger_for("Cleanup", 3, None, None, base=base).logger is base
