"""What the tests of the engine have, too: an application that notes the jobs it sends, and a plan for its steps."""

from tests.engine.conftest import jobs, plan

__all__ = ["jobs", "plan"]
