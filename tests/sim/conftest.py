from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from semel.sim.server.defects import defects_raise
from semel.sim.world.history import Violation

Breaks = Callable[[], AbstractContextManager[Any]]


@pytest.fixture(autouse=True)
def no_defect_is_swallowed() -> Iterator[None]:
    """What a checker raises inside the server ends a test's own world, as it ends a seed."""
    with defects_raise():
        yield


@pytest.fixture
def breaks(request: pytest.FixtureRequest) -> Breaks:
    """``with breaks():`` the invariant that the test's file is named after falls here, and no other."""
    invariant = request.path.stem.removeprefix("test_")
    return lambda: pytest.raises(Violation, match=f"^{invariant}: ")
