"""A server behind a cable."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.peers.cable import Cable

import semel


@pytest.fixture
def cable_to(semel_server_factory: Callable[..., semel.LocalLog]) -> Iterator[Callable[..., Cable]]:
    """``cable_to(**settings)``: a server behind a cable, whose address it tells its clients."""
    cables = []

    def lay(**settings: str | int | bool) -> Cable:
        cable = Cable()
        cables.append(cable)
        cable.target = semel_server_factory(advertised=cable.address, **settings).bootstrap
        return cable

    yield lay
    for cable in cables:
        cable.close()


@pytest.fixture
def cable(cable_to: Callable[..., Cable]) -> Cable:
    return cable_to()
