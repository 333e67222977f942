"""Producers of transactions as cases see them: their requests in any version, and their ids by the order of their
coming.

Apache Kafka writes the markers of a transaction after it has answered that it ends, and answers
CONCURRENT_TRANSACTIONS to whoever comes meanwhile. semel answers once they are written. What a case asks after an end
therefore waits for :meth:`Producer.settle` where that difference is not its subject.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from tests.peers.same_as_kafka.wire import Wire, plain

from semel.record.batch import Buffer, Record, encode_batch, scan_batches

TIMEOUT_MS: Final = 60_000
_TIMEOUT_S: Final = 30.0
_TOPIC_IDS_FROM: Final = 13  # of Produce and of Fetch
_PRODUCER_IDS: Final = ("producer_id", "producer_id_filters")
_SEVERAL_FROM: Final = 4  # FindCoordinator's keys
READ_COMMITTED: Final = 1


class Transactions:
    """What one case knows of one server: ids that the server makes up are shown as ``#1``, ``#2`` …"""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._names: dict[int, str] = {}
        self._topic_ids: dict[str, UUID] = {}
        wire.coordinated(
            lambda: wire.ask("find_coordinator", _SEVERAL_FROM, key_type=1, coordinator_keys=["t"])
        )
        wire.coordinated(lambda: wire.ask("init_producer_id", 4, **_init(None, TIMEOUT_MS)))
        first = wire.name("txn")
        wire.coordinated(lambda: wire.ask("init_producer_id", 4, **_init(first, TIMEOUT_MS)))

    def producer(self, **given: Any) -> Producer:
        """One with a name of its own, and a grant."""
        made = Producer(self)
        answer = made.init(**given)
        assert answer[0] == "none", answer
        return made

    def id_shown(self, producer_id: int) -> str | int:
        if producer_id < 0:
            return producer_id
        return self._names.setdefault(producer_id, f"#{len(self._names) + 1}")

    def shown(self, answer: Any, *left_out: str) -> Any:
        """An answer, or a part of it, as something plain."""
        return self._renamed(plain(answer, *left_out))

    def _renamed(self, value: Any) -> Any:
        match value:
            case dict():
                return {
                    name: self.id_shown(each) if name in _PRODUCER_IDS else self._renamed(each)
                    for name, each in value.items()
                }
            case list() | tuple():
                return [self._renamed(each) for each in value]
        return value

    def topic_id(self, topic: str) -> UUID:
        if topic not in self._topic_ids:
            self._topic_ids[topic] = self.wire.topic_id(topic)
        return self._topic_ids[topic]

    # -- what others see

    def fetched(
        self, topic: str, version: int = 12, isolation: int = READ_COMMITTED, offset: int = 0, **given: Any
    ) -> Any:
        """What a reader gets: the code, both ends, who was aborted from where, and the batches."""
        named = {"topic_id": self.topic_id(topic)} if version >= _TOPIC_IDS_FROM else {"topic": topic}
        partition = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1_000_000,
            **given,
        }
        found = self.wire.fetch(
            topic, version, isolation_level=isolation, topics=[{**named, "partitions": [partition]}]
        )
        (one,) = found.responses[0].partitions
        aborted = one.aborted_transactions
        return {
            "code": one.error_code.name,
            "ends": (one.last_stable_offset, one.high_watermark),
            "aborted": aborted
            and sorted((self.id_shown(each.producer_id), each.first_offset) for each in aborted),
            "batches": [
                (
                    header.base_offset,
                    self.id_shown(header.producer_id),
                    header.producer_epoch,
                    "marker" if header.is_control else "rows" if header.is_transactional else "plain rows",
                )
                for _, header in scan_batches(one.records or b"")
            ],
        }

    def end_of(
        self, topic: str, isolation: int = READ_COMMITTED, timestamp: int = -1, version: int = 6
    ) -> Any:
        """ListOffsets."""
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        asked = [{"name": topic, "partitions": [partition]}]
        answer = self.wire.ask(
            "list_offsets", version, replica_id=-1, isolation_level=isolation, topics=asked, timeout=1_000
        )
        (one,) = answer.topics[0].partitions
        return one.error_code.name, one.offset

    def producers_of(self, topic: str) -> Any:
        """DescribeProducers, without the time."""
        asked = [{"name": topic, "partition_indexes": [0]}]
        answer = self.wire.ask("describe_producers", 0, topics=asked)
        found = self.shown(answer.topics[0].partitions[0].active_producers, "last_timestamp")
        return sorted(found, key=lambda one: str(one["producer_id"]))

    def described(self, *names: str) -> Any:
        """DescribeTransactions; of the start only whether there is one."""
        answer = self.wire.ask("describe_transactions", 0, transactional_ids=names)
        return [
            {
                **self.shown(one, "topics"),
                "transaction_start_time": one.transaction_start_time.timestamp() > 0,
                "topics": sorted((each.topic, sorted(each.partitions)) for each in one.topics),
            }
            for one in answer.transaction_states
        ]

    def state_of(self, name: str) -> str:
        (one,) = self.described(name)
        state = one["transaction_state"]
        assert isinstance(state, str)
        return state

    def mark(self, topic: str, producer_id: int, producer_epoch: int, *, is_commit: bool = False) -> str:
        """WriteTxnMarkers; the code."""
        marker = {
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "transaction_result": is_commit,
            "topics": [{"name": topic, "partition_indexes": [0]}],
            "coordinator_epoch": 0,
        }
        answer = self.wire.ask("write_txn_markers", 1, markers=[marker])
        name = answer.markers[0].topics[0].partitions[0].error_code.name
        assert isinstance(name, str)
        return name


class Producer:
    """One transactional id, and what it was granted last; its sequences go on by themselves."""

    def __init__(self, room: Transactions, name: str | None = None) -> None:
        self.room = room
        self.wire = room.wire
        self.name = room.wire.name("txn") if name is None else name
        self.producer_id = self.producer_epoch = -1
        self._sequences: dict[tuple[str, int, int], int] = defaultdict(int)

    def copy(self) -> Producer:
        """Another process with the same name and grant."""
        other = Producer(self.room, self.name)
        other.producer_id, other.producer_epoch = self.producer_id, self.producer_epoch
        return other

    @property
    def grant(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }

    def init(
        self, version: int = 4, timeout_ms: int = TIMEOUT_MS, **given: Any
    ) -> tuple[str, str | int, int]:
        """Code, id and epoch; asked again while the last transaction ends, as clients do."""
        answer = patiently(
            lambda: self.wire.ask("init_producer_id", version, **_init(self.name, timeout_ms) | given)
        )
        if answer.error_code.name == "none":
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code.name, self.room.id_shown(answer.producer_id), answer.producer_epoch

    def add(self, *topics: str, version: int = 3, partitions: Sequence[int] = (0,), **given: Any) -> Any:
        """The code of every partition."""
        named = [{"name": topic, "partitions": partitions} for topic in topics]
        asked = self.grant | {"topics": named} | given
        answer = patiently(
            lambda: self.wire.ask(
                "add_partitions_to_txn",
                version,
                **{f"v3_and_below_{name}": value for name, value in asked.items()},
            )
        )
        return sorted(
            (
                topics.index(each.name) if each.name in topics else each.name,
                one.partition_index,
                one.partition_error_code.name,
            )
            for each in answer.results_by_topic_v3_and_below
            for one in each.results_by_partition
        )

    def add_offsets(self, group_id: str, version: int = 3, **given: Any) -> str:
        asked = self.grant | {"group_id": group_id} | given
        answer = patiently(lambda: self.wire.ask("add_offsets_to_txn", version, **asked))
        return str(answer.error_code.name)

    def write(
        self,
        topic: str,
        *values: bytes,
        version: int = 12,
        is_transactional: bool = True,
        sequence: int | None = None,
        partition: int = 0,
        **given: Any,
    ) -> tuple[str, int]:
        """Code and offset. ``given`` may be other than what it was granted, and ``transactional_id`` None."""
        granted = self.grant | given
        place = (topic, granted["producer_id"], granted["producer_epoch"])
        values = values or (b"v",)
        base_sequence = self._sequences[place] if sequence is None else sequence
        stamp_ms = time.time_ns() // 1_000_000
        batch = encode_batch(
            [Record(n, stamp_ms, None, value) for n, value in enumerate(values)],
            producer_id=granted["producer_id"],
            producer_epoch=granted["producer_epoch"],
            base_sequence=base_sequence,
            transactional=is_transactional,
        )
        one = self.produce(topic, batch, version, partition, granted["transactional_id"])
        if one.error_code.name == "none":
            self._sequences[place] = base_sequence + len(values)
        return one.error_code.name, one.base_offset

    def produce(
        self, topic: str, batch: Buffer, version: int, partition: int, transactional_id: str | None
    ) -> Any:
        """The partition's answer to a batch that is there already."""
        named: Mapping[str, Any] = (
            {"topic_id": self.room.topic_id(topic)} if version >= _TOPIC_IDS_FROM else {"name": topic}
        )
        data = [{**named, "partition_data": [{"index": partition, "records": bytes(batch)}]}]
        asked = {"transactional_id": transactional_id, "acks": -1, "timeout": 10_000, "topic_data": data}
        answer = patiently(lambda: self.wire.ask("produce", version, **asked))
        (one,) = answer.responses[0].partition_responses
        return one

    def commit_offsets(
        self,
        group_id: str,
        /,
        *topics: str,
        offset: int = 7,
        version: int = 5,
        metadata: str | None = "m",
        **given: Any,
    ) -> Any:
        """TxnOffsetCommit of partition 0 of each; the codes."""
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": metadata,
        }
        asked = {
            **self.grant,
            "group_id": group_id,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": [partition]} for topic in topics],
        }
        answer = patiently(lambda: self.wire.ask("txn_offset_commit", version, **asked | given))
        codes = {each.name: [one.error_code.name for one in each.partitions] for each in answer.topics}
        return [codes.pop(topic) for topic in topics], codes

    def end(self, *, commit: bool, version: int = 5, wait: bool = True, **given: Any) -> tuple[Any, ...]:
        """The code, and from version 5 on id and epoch of what comes next, which it takes; once it has ended."""
        answer = patiently(
            lambda: self.wire.ask("end_txn", version, **self.grant | {"committed": commit} | given)
        )
        found: tuple[Any, ...] = (answer.error_code.name,)
        if version >= 5:
            found += (self.room.id_shown(answer.producer_id), answer.producer_epoch)
            if answer.error_code.name == "none":
                self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        if wait:
            self.settle()
        return found

    def settle(self) -> str:
        """Wait until nothing is being ended any more; the state."""
        give_up_s = time.monotonic() + _TIMEOUT_S
        while (state := self.room.state_of(self.name)).startswith("Prepare"):
            assert time.monotonic() < give_up_s, f"{self.name} is {state}"
            time.sleep(0.01)
        return state


def patiently(ask: Callable[[], Any]) -> Any:
    """What ``ask`` gives once the last transaction has ended: Apache Kafka has whoever comes before that come again."""
    give_up_s = time.monotonic() + _TIMEOUT_S
    while "concurrent_transactions" in str(answer := ask()):
        assert time.monotonic() < give_up_s, answer
        time.sleep(0.01)
    return answer


def _init(name: str | None, timeout_ms: int) -> dict[str, Any]:
    return {
        "transactional_id": name,
        "transaction_timeout": timeout_ms,
        "producer_id": -1,
        "producer_epoch": -1,
    }
