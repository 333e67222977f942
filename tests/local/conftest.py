"""Servers are started here as everybody starts them."""

import pytest
from tests.forked import AS_A_PROGRAM

from semel import local


@pytest.fixture(autouse=True)
def _started_as_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_launch", AS_A_PROGRAM)
