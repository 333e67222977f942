"""The pytest plugin: a real log server for every test that asks for one.

Installed with semel, so that any project's tests can say::

    def test_my_loader(semel_server):
        load(semel_server.bootstrap)
        semel_server.crash()      # kill -9
        semel_server.restart()    # the same port and data

``semel_server`` is a :class:`semel.LocalLog` in the test's own ``tmp_path``, on a free port of 127.0.0.1,
ready in under a second and gone with the test (or with the test process, however that ends).
``semel_server_factory`` starts further ones, or one with other settings. What they logged stands in the report of
a test that fails.

``semel_server_session`` is one server for the whole test run (for each worker of pytest-xdist, its own): no start
a test, but topics stay from test to test, so give them names of their own, and do not crash it.

``semel_flow`` runs a flow on rows, and gives what it wrote, as ``run`` does in the tests of ``semel flow test``::

    def test_visits(semel_flow):
        rows = semel_flow(visits, {"clicks": [{"user": "ann"}, {"user": "ann"}]})
        assert rows.last("visits", "user")["ann"]["count"] == 2
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from semel.flow.trial import Trials
    from semel.local import LocalLog

_SERVERS: Final = pytest.StashKey[list["LocalLog"]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell with a failure what the servers of the test have logged."""
    report = yield
    if report.failed:
        for log in item.stash.get(_SERVERS, []):
            report.sections.append((f"semel_server {log.bootstrap}", log.log_tail))
    return report


@pytest.fixture
def semel_server_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., LocalLog]]:
    """``semel_server_factory(**settings)``: a new server each call, all stopped at the test's end."""
    from semel.local import LocalLog  # here, so that loading the plugin costs other test runs nothing

    with ExitStack() as stack:
        started: list[LocalLog] = []
        request.node.stash[_SERVERS] = started

        def start(**settings: str | int | bool) -> LocalLog:
            folder = tmp_path / f"semel-{len(started) + 1}"
            started.append(stack.enter_context(LocalLog(folder, **settings)))  # type: ignore[arg-type]
            return started[-1]

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
