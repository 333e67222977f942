"""A coordinator's core beside its log, as the server drives it: everything is durable at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from semel.core.decision import Decision, StateRecord
from semel.core.transaction.requests import AddPartitions, End, EndAnswer, Ending, Init, InitAnswer
from semel.core.transaction.states import may_follow
from semel.core.transaction.transaction import EPOCH_BUMP_FROM, Transaction
from semel.core.transaction.transactions import Transactions
from semel.errors import ErrorCode
from semel.types import ProducerGrant, TopicPartition

T = TypeVar("T")

A, B = TopicPartition("a", 0), TopicPartition("b", 3)


@dataclass
class Coordinator:
    """``client_version`` is that of all its clients."""

    client_version: int = EPOCH_BUMP_FROM
    log: list[StateRecord] = field(default_factory=list)
    core: Transactions = field(default_factory=Transactions)
    next_id: int = 100
    now_ms: int = 1_000

    def carry_out(self, decision: Decision[T]) -> T:
        for record in decision.records:
            before = {each.transactional_id: each.state for each in self.core}
            self.log.append(record)
            assert self.core.apply(record)
            for each in self.core:
                last = before.get(each.transactional_id)
                assert each.state is last or may_follow(last, each.state), (last, each.state)
        return decision.response

    def restart(self) -> None:
        self.core = Transactions()
        for record in self.log:
            assert self.core.apply(record)

    def fresh(self) -> int:
        self.next_id += 1
        return self.next_id

    def ask(self, name: str = "t", producer_id: int = -1, producer_epoch: int = -1) -> InitAnswer:
        request = Init(name, 60_000, self.fresh(), producer_id, producer_epoch)
        return self.carry_out(self.core.init(request, self.now_ms))

    def init(self, name: str = "t") -> ProducerGrant:
        """As a server grants it: what is under way ends first."""
        answer = self.ask(name)
        if isinstance(answer, Ending):
            self.complete(name)
            answer = self.ask(name)
        assert isinstance(answer, ProducerGrant)
        return answer

    def add(
        self, grant: ProducerGrant, partitions: Iterable[TopicPartition] = (A,), name: str = "t"
    ) -> ErrorCode:
        request = AddPartitions(
            name, grant.producer_id, grant.producer_epoch, frozenset(partitions), self.client_version
        )
        return self.carry_out(self.core.add(request, self.now_ms))

    def prepare(
        self, grant: ProducerGrant, *, is_commit: bool, name: str = "t", version: int | None = None
    ) -> EndAnswer:
        version = self.client_version if version is None else version
        request = End(name, grant.producer_id, grant.producer_epoch, is_commit, version, self.fresh())
        return self.carry_out(self.core.end(request, self.now_ms))

    def complete(self, name: str = "t") -> Transaction:
        return self.carry_out(self.core.complete(name, self.now_ms))

    def end(self, grant: ProducerGrant, *, is_commit: bool) -> ProducerGrant:
        """All the way; what goes on."""
        assert isinstance(self.prepare(grant, is_commit=is_commit), Ending)
        return self.complete().grant
