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
a test, and do not crash it. ``semel_topic`` is a topic on it that is the test's own::

    def test_my_loader(semel_server_session, semel_topic):
        load(semel_server_session.bootstrap, semel_topic)
        assert [row.value for row in semel_server_session.records(semel_topic)] == [b"a", b"b"]
        assert_once(semel_server_session, output=semel_topic)   # from semel.testing: nothing was stored twice

The report of a test that fails has what its servers lived through and logged, the last requests that they refused, and
which topics they have.

``semel_flow`` runs a flow on rows, and gives what it wrote, as ``run`` does in the tests of ``semel flow test``::

    def test_visits(semel_flow):
        rows = semel_flow(visits, {"clicks": [{"user": "ann"}, {"user": "ann"}]})
        assert rows.last("visits", "user")["ann"]["count"] == 2
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from semel.flow.trial import Trials
    from semel.local import LocalLog

_SERVERS: Final = pytest.StashKey[list["LocalLog"]]()
_SHARED: Final = pytest.StashKey["LocalLog"]()  # of the session
_TOPICS_TOLD_MAX: Final = 30
_ASKING_MS: Final = 2_000
_REFUSED: Final = "semel.server.refused"  # whose lines they are, in the debug log
_REFUSED_TOLD_MAX: Final = 10
_TOPIC_NAME_MAX: Final = 200


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say with a failure what its servers lived through, and what they have."""
    report = yield
    if report.failed:
        for log in item.stash.get(_SERVERS, []):
            report.sections.append((f"semel_server {log.bootstrap}", _account_of(log)))
        shared = item.session.stash.get(_SHARED, None)
        if shared is not None and "semel_server_session" in getattr(item, "fixturenames", ()):
            report.sections.append((f"semel_server_session {shared.bootstrap}", _account_of(shared)))
    return report


def assert_once(
    log: LocalLog | str,
    *,
    output: str,
    input: str | None = None,
    where: str | None = None,
    key: str | None = None,
) -> None:
    """Fail unless topic ``output`` holds every row of topic ``input`` exactly once, in order, as ``semel audit`` says.

    Without an input: unless nothing was stored twice. ``where`` and ``key`` are the options of that name: which rows
    of the input have to be there, and which fields of a JSON value name a row. ``log`` is a server, or its address.
    """
    __tracebackhide__ = True
    from semel.audit.identity import IdentityRule
    from semel.audit.run import AuditPlan, audit
    from semel.client.blocking import Cluster

    identity = IdentityRule.of(key, None)
    plan = AuditPlan(
        output_topic=output,
        input_topic=input,
        where=where,
        named=key is not None,
        output_identity=identity,
        input_identity=identity,
    )
    with Cluster(log if isinstance(log, str) else log.bootstrap) as cluster:
        report = audit(cluster, plan)
    if not report.holds:
        pytest.fail("\n".join(report.as_lines()), pytrace=False)


def _account_of(log: LocalLog) -> str:
    lines = log.history.splitlines()
    refused = [line for line in lines if _REFUSED in line]
    parts = ["\n".join(line for line in lines if _REFUSED not in line)]
    if refused:
        parts += ["the last requests that it refused:", *refused[-_REFUSED_TOLD_MAX:]]
    parts.append("it is not running" if log.process_id is None else _topics_of(log))
    return "\n".join(part for part in parts if part)


def _topics_of(log: LocalLog) -> str:
    """Asked now, with little patience: a server that does not answer is news, too."""
    from semel.client.blocking import Cluster
    from semel.errors import SemelError
    from semel.types import LATEST_TIMESTAMP, TopicPartition

    try:
        with Cluster(log.bootstrap, request_timeout_ms=_ASKING_MS, connect_timeout_ms=_ASKING_MS) as cluster:
            topics = {
                name: sorted(topic.partitions)
                for name, topic in cluster.metadata(None).topics.items()
                if not topic.is_internal
            }
            told = dict(islice(sorted(topics.items()), _TOPICS_TOLD_MAX))
            wanted = [TopicPartition(name, number) for name, numbers in told.items() for number in numbers]
            ends = cluster.list_offsets(dict.fromkeys(wanted, LATEST_TIMESTAMP)) if wanted else {}
    except SemelError as failed:
        return f"asked for its topics: {failed}"
    lines = [
        f"topic {name}: "
        + ", ".join(f"{ends[TopicPartition(name, each)].offset} in {each}" for each in numbers)
        for name, numbers in told.items()
    ]
    if len(topics) > len(told):
        lines.append(f"and {len(topics) - len(told)} topics more")
    return "\n".join(["next offsets, by partition:", *lines]) if lines else "it has no topics"


@pytest.fixture
def semel_server_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., LocalLog]]:
    """``semel_server_factory(**settings)``: a new server each call, all stopped at the test's end."""
    from semel.local import LocalLog  # here, so that loading the plugin costs other test runs nothing

    with ExitStack() as stack:
        started: list[LocalLog] = []
        request.node.stash[_SERVERS] = started

        def start(**settings: str | int | bool) -> LocalLog:
            folder = tmp_path / f"semel-{len(started) + 1}"
            settings.setdefault("log_level", "debug")
            started.append(stack.enter_context(LocalLog(folder, **settings)))  # type: ignore[arg-type]
            return started[-1]

        yield start


@pytest.fixture(scope="session")
def semel_server_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalLog]:
    """A log server that the tests of a run share, with ``bootstrap``; see ``semel_topic``."""
    from semel.local import LocalLog

    with LocalLog(tmp_path_factory.mktemp("semel-session"), log_level="debug") as log:
        request.session.stash[_SHARED] = log
        yield log


@pytest.fixture
def semel_topic(request: pytest.FixtureRequest, semel_server_session: LocalLog) -> Iterator[str]:
    """The name of a topic of one partition on ``semel_server_session``, made for this test and gone with it."""
    from semel.client.admin import Admin
    from semel.errors import UnknownTopic

    said = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:_TOPIC_NAME_MAX].strip("-")
    name = f"{said}-{uuid.uuid4().hex[:8]}"
    with Admin(semel_server_session.bootstrap) as admin:
        admin.create_topic(name)
        yield name
        with suppress(UnknownTopic):  # the test may have deleted it
            admin.delete_topic(name)


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
