from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.sim.server.defects import defects_raise


@pytest.fixture(autouse=True)
def no_defect_is_swallowed() -> Iterator[None]:
    """What a checker raises inside the server ends a test's own world, as it ends a seed."""
    with defects_raise():
        yield
