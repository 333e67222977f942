from __future__ import annotations

from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.decision import Decision, StateRecord
from semel.core.identity import IdBlock, Identities, Identity, InitProducer, Refused, Response
from semel.errors import ErrorCode
from semel.types import PRODUCER_EPOCH_MAX, ProducerGrant

T = TypeVar("T")


class Server:
    """A core with its log, and the volatile block of ids."""

    def __init__(self, log: list[StateRecord] | None = None) -> None:
        self.log = log or []
        self.core = Identities({7: "sink"}.get)
        for record in self.log:
            assert self.core.apply(record)
        self.block = IdBlock(0, 0)

    def run(self, request: InitProducer) -> Response:
        return self.carry_out(self.core.decide(request))

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

    def init(self, producer_id: int = -1, producer_epoch: int = -1) -> Response:
        return self.run(InitProducer(self.fresh(), producer_id, producer_epoch))

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
    server.init(), server.init()
    for producer_epoch in range(last):
        assert server.run(InitProducer(-1, 1, producer_epoch)) == ProducerGrant(1, producer_epoch + 1)
    for request in (InitProducer(-1), InitProducer(-1, 1, last)):
        assert code(server.run(request)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert server.init(1, last) == ProducerGrant(2, 0), "and nothing was changed by being told so"


def test_a_saved_id_is_resumed_once() -> None:
    server = Server()
    server.init()
    assert server.init(0, 0) == ProducerGrant(0, 1)
    assert code(server.init(0, 0)) is ErrorCode.PRODUCER_FENCED
    assert code(server.restart().init(0, 0)) is ErrorCode.PRODUCER_FENCED
    assert server.init(0, 1) == ProducerGrant(0, 2)


def test_what_was_never_granted_is_not_resumed() -> None:
    server = Server()
    server.init()
    assert code(server.init(0, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(server.init(99, 0)) is ErrorCode.UNKNOWN_PRODUCER_ID


def test_the_id_of_a_transactional_id_is_not_resumed_by_its_number() -> None:
    """Else the name and the number would both be granted (id, 1), and the two copies not tell each other apart."""
    server = Server()
    for _ in range(9):
        server.init()
    assert code(server.init(7, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code(server.restart().init(7, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_id_that_a_transactional_id_has_used_up_is_resumed_by_nobody() -> None:
    server = Server()
    server.init()
    server.carry_out(server.core.seal(0))
    assert code(server.init(0, 0)) is ErrorCode.PRODUCER_FENCED
    assert code(server.restart().init(0, 0)) is ErrorCode.PRODUCER_FENCED


def test_names_of_older_folders_are_read_and_forgotten() -> None:
    server = Server([StateRecord(b"identity/sink", b'{"v":1,"id":3,"epoch":9,"granted_ms":5}')])
    assert server.core.named == {"sink": Identity("sink", 3, 9, 5)}
    assert StateRecord(b"identity/sink", b'{"v":1,"id":3,"epoch":9,"granted_ms":5}') in list(
        server.core.live_records()
    )
    server.carry_out(server.core.forget_named())
    assert server.core.named == {} == server.restart().core.named


@pytest.mark.slow
def test_used_up_epochs_end_in_a_fresh_id() -> None:
    server = Server()
    server.init()
    for epoch in range(PRODUCER_EPOCH_MAX - 1):
        assert server.init(0, epoch) == ProducerGrant(0, epoch + 1)
    fresh = server.init(0, PRODUCER_EPOCH_MAX - 1)
    assert isinstance(fresh, ProducerGrant)
    assert fresh.producer_id > 0
    assert fresh.producer_epoch == 0
    assert code(server.init(0, PRODUCER_EPOCH_MAX - 1)) is ErrorCode.PRODUCER_FENCED


def test_an_id_that_somebody_guessed_is_given_to_nobody_else() -> None:
    server = Server()
    server.init()
    assert server.init(2, 0) == ProducerGrant(2, 1), "of a claimed block, not given out yet"
    assert code(server.init()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert server.init() == ProducerGrant(3, 0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["new", "resume", "restart", "compact"]),
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
        if what == "restart":
            server = server.restart()
            continue
        if what == "compact":
            live = list(server.core.live_records())
            server = Server(live)
            assert list(server.core.live_records()) == live
            continue
        response = server.init() if what == "new" else server.init(number, epoch)
        if isinstance(response, ProducerGrant):
            granted.append(response)
    assert len(set(granted)) == len(granted)
