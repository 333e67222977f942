from __future__ import annotations

from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core import identity
from semel.core.decision import Decision, StateRecord
from semel.core.identity import IdBlock, Identities, InitProducer, Refused, Response
from semel.errors import ErrorCode
from semel.types import PRODUCER_EPOCH_MAX, ProducerGrant

T = TypeVar("T")


class Server:
    """A core with its log, and the volatile block of ids."""

    def __init__(self, log: list[StateRecord] | None = None) -> None:
        self.log = log or []
        self.core = Identities()
        for record in self.log:
            assert self.core.apply(record)
        self.block = IdBlock(0, 0)

    def run(self, request: InitProducer) -> Response:
        return self.carry_out(self.core.decide(request, now_ms=5))

    def carry_out(self, decision: Decision[T]) -> T:
        for record in decision.records:
            self.log.append(record)
            assert self.core.apply(record)
        return decision.response

    def fresh(self) -> int:
        if self.block.first_id == self.block.end_id:
            next_id = self.core.next_id
            self.block = self.carry_out(self.core.take(IdBlock(next_id, next_id + 10)))
        self.block = IdBlock(self.block.first_id + 1, self.block.end_id)
        return self.block.first_id - 1

    def init(self, name: str | None = None, producer_id: int = -1, producer_epoch: int = -1) -> Response:
        return self.run(InitProducer(self.fresh(), name, producer_id, producer_epoch))

    def restart(self) -> Server:
        return Server(self.log)


def code(response: Response) -> ErrorCode:
    assert isinstance(response, Refused)
    return response.error_code


def test_fresh_ids_differ() -> None:
    server = Server()
    assert [server.init() for _ in range(12)] == [ProducerGrant(n, 0) for n in range(12)]


def test_a_crash_wastes_a_block_and_reuses_none() -> None:
    server = Server()
    server.init()
    assert server.restart().init() == ProducerGrant(10, 0)


def test_only_who_needs_a_fresh_id_is_told_that_none_is_at_hand() -> None:
    server = Server()
    last = PRODUCER_EPOCH_MAX - 1
    server.init("named"), server.init()
    for producer_epoch in range(last):
        assert server.run(InitProducer(-1, "named")) == ProducerGrant(0, producer_epoch + 1)
        assert server.run(InitProducer(-1, None, 1, producer_epoch)) == ProducerGrant(1, producer_epoch + 1)
    for request in (
        InitProducer(-1),
        InitProducer(-1, "other"),
        InitProducer(-1, "named"),
        InitProducer(-1, None, 1, last),
    ):
        assert code(server.run(request)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert server.init("named") == ProducerGrant(2, 0), "and nothing was changed by being told so"
    assert server.init(None, 1, last) == ProducerGrant(3, 0)


def test_a_saved_id_is_resumed_once() -> None:
    server = Server()
    server.init()
    assert server.init(None, 0, 0) == ProducerGrant(0, 1)
    assert code(server.init(None, 0, 0)) is ErrorCode.PRODUCER_FENCED
    assert code(server.restart().init(None, 0, 0)) is ErrorCode.PRODUCER_FENCED
    assert server.init(None, 0, 1) == ProducerGrant(0, 2)


def test_what_was_never_granted_is_not_resumed() -> None:
    server = Server()
    server.init()
    assert code(server.init(None, 0, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(server.init(None, 99, 0)) is ErrorCode.UNKNOWN_PRODUCER_ID


def test_a_name_keeps_its_id_and_its_epoch_rises() -> None:
    server = Server()
    first = server.init("sink")
    assert isinstance(first, ProducerGrant)
    assert server.init("sink") == ProducerGrant(first.producer_id, 1)
    assert server.restart().init("sink") == ProducerGrant(first.producer_id, 2)
    assert server.init("other") != first
    assert code(server.init("sink", first.producer_id, 0)) is ErrorCode.PRODUCER_FENCED
    assert code(server.init("new", 3, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code(server.init("")) is ErrorCode.INVALID_REQUEST
    assert code(server.init("x" * 2000)) is ErrorCode.INVALID_REQUEST


def test_the_id_of_a_name_is_not_resumed_by_its_number() -> None:
    """Else the name and the number would both be granted (id, 1), and the two copies not tell each other apart."""
    server = Server()
    server.init("sink")
    assert code(server.init(None, 0, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code(server.restart().init(None, 0, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert server.init("sink") == ProducerGrant(0, 1)


@pytest.mark.slow
def test_used_up_epochs_end_in_a_fresh_id() -> None:
    server = Server()
    server.init("sink")
    server.init()
    for epoch in range(PRODUCER_EPOCH_MAX - 1):
        granted = server.init("sink")
        assert server.init(None, 1, epoch) == ProducerGrant(1, epoch + 1)
    assert granted == ProducerGrant(0, PRODUCER_EPOCH_MAX - 1)
    for fresh in (server.init("sink"), server.init(None, 1, PRODUCER_EPOCH_MAX - 1)):
        assert isinstance(fresh, ProducerGrant)
        assert fresh.producer_id > 1
        assert fresh.producer_epoch == 0
    assert code(server.init(None, 1, PRODUCER_EPOCH_MAX - 1)) is ErrorCode.PRODUCER_FENCED
    assert code(server.init(None, 0, 0)) is ErrorCode.PRODUCER_FENCED, "the name had these epochs"


def test_at_the_bound_no_name_is_forgotten_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "IDENTITIES_MAX", 2)
    server = Server()
    granted = [server.init(name) for name in ("a", "b")]
    assert code(server.init("c")) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    again = server.restart().init("a")
    assert isinstance(again, ProducerGrant) and isinstance(granted[0], ProducerGrant)
    assert again == ProducerGrant(granted[0].producer_id, 1)


def test_an_id_that_somebody_guessed_is_given_to_nobody_else() -> None:
    server = Server()
    server.init()
    assert server.init(None, 2, 0) == ProducerGrant(2, 1), "of a claimed block, not given out yet"
    assert code(server.init("name")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert server.init("name") == ProducerGrant(3, 0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["new", "resume", "named", "restart", "compact"]),
            st.integers(0, 40),
            st.integers(0, 3),
        ),
        max_size=60,
    )
)
def test_no_right_to_write_is_granted_twice(steps: list[tuple[str, int, int]]) -> None:
    server = Server()
    granted: list[ProducerGrant] = []
    for what, number, epoch in steps:
        response: Response
        if what == "restart":
            server = server.restart()
            continue
        if what == "compact":
            live = list(server.core.live_records())
            server = Server(live)
            assert list(server.core.live_records()) == live
            continue
        if what == "new":
            response = server.init()
        elif what == "resume":
            response = server.init(None, number, epoch)
        else:
            response = server.init(f"name-{number % 3}")
        if isinstance(response, ProducerGrant):
            granted.append(response)
    assert len(set(granted)) == len(granted)
