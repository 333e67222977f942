"""The pytest plugin: a real log server for every test that asks for one.

Installed with semel, so that any project's tests can say::

    def test_my_loader(semel_server):
        load(semel_server.bootstrap)
        semel_server.crash()      # kill -9
        semel_server.restart()    # the same port and data

``semel_server`` is a :class:`semel.LocalLog` in the test's own ``tmp_path``, on a free port of 127.0.0.1,
ready in under a second and gone with the test (or with the test process, however that ends).
``semel_server_factory`` starts further ones, or one with other settings.

``semel_server_session`` is one server for the whole test run (for each worker of pytest-xdist, its own): no start
a test, but topics stay from test to test, so give them names of their own, and do not crash it.

``semel_flow`` runs a flow on rows, and gives what it wrote, as ``run`` does in the tests of ``semel flow test``::

    def test_visits(semel_flow):
        rows = semel_flow(visits, {"clicks": [{"user": "ann"}, {"user": "ann"}]})
        assert rows.last("visits", "user")["ann"]["count"] == 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from semel.flow.trial import Trials
    from semel.local import LocalLog


@pytest.fixture
def semel_server_factory(tmp_path: Path) -> Iterator[Callable[..., LocalLog]]:
    """``semel_server_factory(**settings)``: a new server each call, all stopped at the test's end."""
    from semel.local import LocalLog  # here, so that loading the plugin costs other test runs nothing

    with ExitStack() as stack:
        count = 0

        def start(**settings: str | int | bool) -> LocalLog:
            nonlocal count
            count += 1
            return stack.enter_context(LocalLog(tmp_path / f"semel-{count}", **settings))  # type: ignore[arg-type]

        yield start


@pytest.fixture(scope="session")
def semel_server_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalLog]:
    """A log server that the tests of a run share, with ``bootstrap``; each takes topics of its own."""
    from semel.local import LocalLog

    with LocalLog(tmp_path_factory.mktemp("semel-session")) as log:
        yield log


@pytest.fixture
def semel_server(semel_server_factory: Callable[..., LocalLog]) -> LocalLog:
    """A log server of the test's own, with ``bootstrap``, ``crash()`` and ``restart()``."""
    return semel_server_factory()


@pytest.fixture(scope="session")
def semel_flow(semel_server_session: LocalLog) -> Iterator[Trials]:
    """``semel_flow(flow, {"topic": [rows]})``: run a flow on rows, each time in topics of its own."""
    from semel.flow.testing import trials

    with trials(semel_server_session.bootstrap) as run:
        yield run
