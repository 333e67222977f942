"""What a client of transactions asks, one request after another, as the transaction version has it (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from semel.errors import ErrorCode
from semel.sim.clients.cluster import Later
from semel.sim.clients.session import REQUEST_TIMEOUT_MS, Session
from semel.sim.transactions.story import Offsets, Poll, Protocol, TransactionPlan, TransactionStory, Txn
from semel.sim.transactions.taking import taken
from semel.sim.transactions.watcher import TransactionWatcher
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerGrant, TopicPartition
from semel.wire import fetch, init_producer_id, produce
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer
from semel.wire.init_producer_id import InitProducerIdRequest
from semel.wire.messages import decode_response, encode_request

NO_ANSWER: Final = ErrorCode.NETWORK_EXCEPTION
FETCH_VERSION: Final = 12
FETCH_WAIT_MS: Final = 300
OFFSET_COMMIT_VERSION: Final = 8
OFFSET_FETCH_VERSION: Final = 7
VERSIONS: Final[Mapping[Protocol, Mapping[ApiKey, int]]] = {
    Protocol.NEWER: {
        ApiKey.INIT_PRODUCER_ID: 5,
        ApiKey.PRODUCE: 12,
        ApiKey.TXN_OFFSET_COMMIT: 5,
        ApiKey.END_TXN: 5,
    },
    Protocol.OLDER: {
        ApiKey.INIT_PRODUCER_ID: 4,
        ApiKey.PRODUCE: 11,
        ApiKey.ADD_PARTITIONS_TO_TXN: 3,
        ApiKey.ADD_OFFSETS_TO_TXN: 3,
        ApiKey.TXN_OFFSET_COMMIT: 4,
        ApiKey.END_TXN: 4,
    },
}
_ACKS_ALL: Final = -1


class Ended(NamedTuple):
    """The answer to EndTxn; ``grant`` is what its client goes on with."""

    code: ErrorCode
    grant: ProducerGrant | None = None


class Connections:
    """Of one process, which asks and reads. An answer that does not come is :data:`NO_ANSWER`."""

    def __init__(self, story: TransactionStory, name: str, process: Process, around: Surroundings) -> None:
        self._story, self._name, self._around = story, name, around
        self._watcher = around.watchers.of(TransactionWatcher)
        self._session = Session(name, process, around.network)
        self._reading = Session(f"{name}.reader", process, around.network)

    def die(self) -> None:
        self._session.die()
        self._reading.die()

    @property
    def _now_ms(self) -> int:
        return self._around.scheduler.now_ms

    async def _send(
        self,
        api_key: ApiKey,
        version: int,
        body: Sequence[Buffer],
        session: Session | None = None,
    ) -> memoryview | None:
        answer = Later()
        (session or self._session).request(api_key, version, body, answer.know, REQUEST_TIMEOUT_MS)
        found: memoryview | None = await answer
        return found

    def _note(self, api_key: ApiKey, code: ErrorCode, what: str) -> ErrorCode:
        self._around.counts.verdict(f"transaction: {api_key.name}, {code.name}")
        self._around.trace.note(self._name, f"{api_key.name} {what}: {code.name}")
        return code

    # -- readers

    async def poll(
        self, tp: TopicPartition, from_offset: int, bytes_max: int, *, is_committed: bool
    ) -> Poll | ErrorCode | int:
        """What is there; or where the log begins, when that is later; or why not."""
        level = fetch.READ_COMMITTED if is_committed else fetch.READ_UNCOMMITTED
        asked = fetch.FetchPartition(tp.topic, tp.partition, from_offset, bytes_max)
        body = fetch.encode_request(
            FETCH_VERSION, fetch.FetchRequest(FETCH_WAIT_MS, 1, bytes_max, level, [asked])
        )
        found = await self._send(ApiKey.FETCH, FETCH_VERSION, [body], self._reading)
        if found is None:
            return NO_ANSWER
        (answer,) = fetch.decode_response(FETCH_VERSION, found).partitions
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and answer.log_start_offset > from_offset:
            return answer.log_start_offset
        if code is not ErrorCode.NONE:
            return code
        next_offset, rows = taken(answer, from_offset, is_committed=is_committed)
        poll = Poll(
            self._name,
            tp,
            is_committed,
            from_offset,
            next_offset,
            tuple(rows),
            answer.high_watermark,
            answer.last_stable_offset,
            answer.log_start_offset,
        )
        self._watcher.polled(self._story, poll)
        self._story.polls.append(poll)
        if rows:
            self._around.trace.note(self._name, f"{tp} {from_offset}..{next_offset}: {len(rows)} rows")
        return poll

    async def position(self, group_id: str, tp: TopicPartition, *, notes: bool = True) -> int | None:
        """What is committed, -1 where nothing is; ``None``: no answer, or it is not stable. ``notes``: a transaction
        has committed it, and says so beside it.
        """
        sent_ms = self._now_ms
        fields = {
            "group_id": group_id,
            "topics": _by_topic("partition_indexes", {tp: tp.partition}),
            "require_stable": True,
        }
        body = encode_request(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, fields)
        found = await self._send(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, [body])
        if found is None:
            return None
        answer = decode_response(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, found)
        item = answer.topics[0].partitions[0]
        code = self._note(
            ApiKey.OFFSET_FETCH, ErrorCode.of(int(item.error_code)), f"{group_id} {item.committed_offset}"
        )
        if code is not ErrorCode.NONE:
            return None
        offset = int(item.committed_offset)
        if notes:
            note = (item.metadata or "") if offset >= 0 else None
            self._watcher.position_told(self._story, group_id, offset, note, sent_ms)
            self._story.final_offsets[group_id] = note
        return offset

    async def commit(self, group_id: str, tp: TopicPartition, offset: int) -> None:
        """Outside of any transaction."""
        one = _offset_fields(tp, offset, "")
        fields = {
            "group_id": group_id,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": _by_topic("partitions", {tp: one}),
        }
        body = encode_request(ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION, fields)
        await self._send(ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION, [body])


class TransactionRequests(Connections):
    """Those of one that has a transactional id, too."""

    def __init__(
        self,
        plan: TransactionPlan,
        story: TransactionStory,
        name: str,
        process: Process,
        around: Surroundings,
        protocol: Protocol,
    ) -> None:
        super().__init__(story, name, process, around)
        self._plan = plan
        self._versions = VERSIONS[protocol]

    async def _ask(self, api_key: ApiKey, fields: Mapping[str, Any]) -> Any:
        version = self._versions[api_key]
        found = await self._send(api_key, version, [encode_request(api_key, version, fields)])
        return None if found is None else decode_response(api_key, version, found)

    async def init(self, after: ProducerGrant | None) -> tuple[ErrorCode, ProducerGrant | None]:
        """``after``: only if nobody was granted it since."""
        name = self._plan.transactional_id
        self._story.inits[name] = self._story.inits.get(name, 0) + 1
        grant = after or ProducerGrant(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        request = InitProducerIdRequest(name, self._plan.timeout_ms, grant.producer_id, grant.producer_epoch)
        version = self._versions[ApiKey.INIT_PRODUCER_ID]
        body = init_producer_id.encode_request(version, request)
        found = await self._send(ApiKey.INIT_PRODUCER_ID, version, [body])
        if found is None:
            return NO_ANSWER, None
        answer = init_producer_id.decode_response(version, found)
        granted = ProducerGrant(answer.producer_id, answer.producer_epoch)
        code = ErrorCode.of(answer.error_code)
        self._note(ApiKey.INIT_PRODUCER_ID, code, f"{granted.producer_id}/{granted.producer_epoch}")
        return code, granted if code is ErrorCode.NONE else None

    async def add_partitions(self, txn: Txn, tps: Iterable[TopicPartition]) -> ErrorCode:
        topics = [
            {"name": topic, "partitions": [tp.partition for tp in some]}
            for topic, some in groupby(sorted(tps), key=lambda tp: tp.topic)
        ]
        answer = await self._ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            {
                "v3_and_below_transactional_id": txn.transactional_id,
                "v3_and_below_producer_id": txn.grant.producer_id,
                "v3_and_below_producer_epoch": txn.grant.producer_epoch,
                "v3_and_below_topics": topics,
            },
        )
        if answer is None:
            return NO_ANSWER
        codes = [
            ErrorCode.of(int(item.partition_error_code))
            for topic in answer.results_by_topic_v3_and_below
            for item in topic.results_by_partition
        ]
        return self._note(ApiKey.ADD_PARTITIONS_TO_TXN, codes[0], txn.name)

    async def add_offsets(self, txn: Txn, group_id: str) -> ErrorCode:
        fields = {**_of(txn), "group_id": group_id}
        answer = await self._ask(ApiKey.ADD_OFFSETS_TO_TXN, fields)
        if answer is None:
            return NO_ANSWER
        return self._note(ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.of(int(answer.error_code)), txn.name)

    async def produce(
        self, txn: Txn, batches: Mapping[TopicPartition, bytearray]
    ) -> dict[TopicPartition, tuple[ErrorCode, int]]:
        """The code and the base offset of each partition's batch."""
        version = self._versions[ApiKey.PRODUCE]
        items = [
            produce.ProducePartition(tp.topic, tp.partition, memoryview(batches[tp]))
            for tp in sorted(batches)
        ]
        request = produce.ProduceRequest(txn.transactional_id, _ACKS_ALL, REQUEST_TIMEOUT_MS, items)
        found = await self._send(ApiKey.PRODUCE, version, produce.encode_request(version, request))
        if found is None:
            return dict.fromkeys(batches, (NO_ANSWER, -1))
        results, _ = produce.decode_response(version, found)
        return {
            TopicPartition(str(one.topic), one.partition): (
                self._note(ApiKey.PRODUCE, ErrorCode.of(one.error_code), f"{txn.name} {one.base_offset}"),
                one.base_offset,
            )
            for one in results
        }

    async def commit_offsets(self, txn: Txn, offsets: Offsets) -> ErrorCode:
        """In the transaction."""
        one = _offset_fields(offsets.tp, offsets.end_offset, txn.name)
        answer = await self._ask(
            ApiKey.TXN_OFFSET_COMMIT,
            {
                **_of(txn),
                "group_id": offsets.group_id,
                "generation_id": -1,
                "member_id": "",
                "group_instance_id": None,
                "topics": _by_topic("partitions", {offsets.tp: one}),
            },
        )
        if answer is None:
            return NO_ANSWER
        code = ErrorCode.of(int(answer.topics[0].partitions[0].error_code))
        return self._note(ApiKey.TXN_OFFSET_COMMIT, code, f"{txn.name} {offsets.end_offset}")

    async def end(self, txn: Txn, *, commit: bool) -> Ended:
        answer = await self._ask(ApiKey.END_TXN, {**_of(txn), "committed": commit})
        if answer is None:
            return Ended(NO_ANSWER)
        what = f"{txn.name} {'commit' if commit else 'abort'}"
        code = self._note(ApiKey.END_TXN, ErrorCode.of(int(answer.error_code)), what)
        producer_id = getattr(answer, "producer_id", NO_PRODUCER_ID)
        if code is not ErrorCode.NONE or producer_id == NO_PRODUCER_ID:
            return Ended(code, txn.grant)
        return Ended(code, ProducerGrant(producer_id, answer.producer_epoch))


def _of(txn: Txn) -> dict[str, Any]:
    return {
        "transactional_id": txn.transactional_id,
        "producer_id": txn.grant.producer_id,
        "producer_epoch": txn.grant.producer_epoch,
    }


def _offset_fields(tp: TopicPartition, offset: int, note: str) -> dict[str, Any]:
    return {
        "partition_index": tp.partition,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": note,
    }


def _by_topic(name: str, items: Mapping[TopicPartition, Any]) -> list[dict[str, Any]]:
    return [
        {"name": topic, name: [items[tp] for tp in tps]}
        for topic, tps in groupby(sorted(items), key=lambda tp: tp.topic)
    ]
