"""Every exception of the public API, and Kafka's error codes.

SemelError
├── ConfigError             a setting, option or argument is wrong; nothing was done
├── CorruptRecordBatch      bytes are not a valid record batch or message
│   └── UnreadableBatch         … of this partition, at this offset: where to go on
├── ConnectionLost          no broker could be reached in time
├── BrokerError             a broker refused a request: carries the code
│   └── UnknownTopic            there is no such topic, or it has no such partition
├── ProducerFenced          a newer copy of this identity exists: says which
├── InputDiffers            a resumed producer was handed other rows than those that it had stored
├── DeliveryError           a record's fate, as a type:
│   ├── NotStored           it is not in the log, and will not come to be there
│   │   ├── FencedNotStored     for this copy of the producer is fenced (a ProducerFenced, too)
│   │   ├── TransactionAborted  for its transaction is aborted: none of its rows counts; begin another one
│   │   └── TransactionsEnded   nor does any of its transaction count, and this producer makes no more:
│   │       ├── TransactionTimedOut     it took too long, and its coordinator aborted it
│   │       └── TransactionalIdExpired  its coordinator does not know the transactional id any more
│   └── CannotKnow          it may be stored; ask again with the same identity (resume)
│       ├── FencedInDoubt       this copy of the producer was fenced before it knew (a ProducerFenced, too)
│       └── CommitInDoubt       nobody answered whether its transaction is committed: all of it is, or nothing
├── GroupError              a consumer cannot go on in its group as it is: says why, and what was committed
│   ├── NotCommitted            a commit was refused: nothing of it is committed
│   ├── MemberFenced            another consumer has the same group_instance_id; this one must stop
│   └── NoCommittedOffset       the group has no offset of a partition, and auto_offset_reset says to tell
├── DataLoss                offsets that were asked for are gone: topic, partition, range
├── StorageError            the data folder cannot be used: locked, other version, failed disk
├── JobTakenOver            another copy of a landing job holds it: says which; this one must stop
├── FlowError               a step of a flow makes no sense: which one, where it was written, what to do
├── StepFailed              a function of a flow failed on a row: names the step and the row
├── FlowStopped             a flow ended because one of its stages did: says which, why, and what is stored
└── SinkError               an exactly-once sink stopped rather than double or lose a row:
    ├── SinkFenced              another driver took the sink over
    ├── ReplayDiffers           a replayed micro-batch is not the one that was decided
    ├── NonDeterministicReplay  same ranges, other rows
    ├── ReplayUnprovable        the log no longer holds what a proof needs
    └── PlanNotSupported        a shuffle between source and sink, or a source without ranges
"""

from __future__ import annotations

import traceback
from enum import IntEnum
from typing import Final

from semel.types import TopicPartition

_OUR_FILES: Final = __file__.removesuffix("errors.py")
_LIBRARIES: Final = "site-packages"


class SemelError(Exception):
    """Base of every error that semel raises on purpose."""


class ConfigError(SemelError, ValueError):
    """A setting, option or argument is wrong. Nothing was sent and nothing was stored."""


class CorruptRecordBatch(SemelError):
    """The bytes are not a valid record batch (or message); none of them was used."""


class UnreadableBatch(CorruptRecordBatch):
    """A batch of a log cannot be read: topic, partition, offset, and where to go on. What is in front of it was given.

    ``is_damaged``: its bytes are not those that were produced, and may be better when they are read again. Else its
    producer wrote it so, under a right checksum, and it stays so. ``batch`` is what can be had of it.
    """

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        next_offset: int | None,
        why: str,
        way_on: str = "",
        is_damaged: bool = True,
        batch: bytes = b"",
    ) -> None:
        self.partition, self.offset = partition, offset
        self.next_offset = (
            next_offset  # behind the batch, as its own header has it; None: that is damaged too
        )
        self.why, self.way_on, self.is_damaged, self.batch = why, way_on, is_damaged, batch
        behind = "a later offset" if next_offset is None else str(next_offset)
        super().__init__(
            f"topic {partition.topic!r}, partition {partition.partition}: the batch at offset {offset} cannot be "
            f"read ({why}); "
            + (
                "it was damaged on the server's disk, or on the way from it: read again; if it stays so, "
                if is_damaged
                else "its producer wrote it so, and it stays so: "
            )
            + (way_on or f"seek to {behind} to go on behind it")
        )

    def with_way_on(self, way_on: str) -> UnreadableBatch:
        """The same, with the way on in the terms of whoever reads."""
        return UnreadableBatch(
            self.partition, self.offset, self.next_offset, self.why, way_on, self.is_damaged, self.batch
        )

    def __reduce__(
        self,
    ) -> tuple[type[UnreadableBatch], tuple[TopicPartition, int, int | None, str, str, bool, bytes]]:
        return UnreadableBatch, (
            self.partition,
            self.offset,
            self.next_offset,
            self.why,
            self.way_on,
            self.is_damaged,
            self.batch,
        )


class ConnectionLost(SemelError):
    """No broker answered in time. For a read: repeat it. Writes raise :class:`DeliveryError` instead."""

    no_such_host: bool = False  # none of the addresses is a host's: to wait for it would be in vain
    not_kafka: bool = False  # nor will what answers there, in another protocol, become a broker


class BrokerError(SemelError):
    """A broker refused a request."""

    def __init__(self, code: int, what: str, detail: str = "") -> None:
        self.code = ErrorCode.of(code)
        known = f"{self.code.name} ({int(code)})" if self.code.name != "UNKNOWN" or code == -1 else str(code)
        super().__init__(f"{what}: {known}" + (f": {detail}" if detail else ""))


class UnknownTopic(BrokerError):
    """There is no such topic, or it has no such partition. What sends to it raises :class:`NotStored`, from this."""

    def __init__(self, topic: str, detail: str) -> None:
        self.topic = topic
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r}", detail)


class ProducerFenced(SemelError):
    """A newer copy of this producer identity holds a higher epoch; this copy must stop.

    What it had acknowledged is stored. What was in flight is told record by record by its delivery errors.
    """


class InputDiffers(SemelError):
    """The input that a producer resumed with is not the one that it had before: other rows, fewer, or another topic.

    What an earlier run stored is stored, once, and no row of this input was dropped for it. Take another identity for
    another input.
    """

    def __init__(self, why: str, advice: str | None = None, *, may_be_remade: bool = False) -> None:
        self.why = why
        self.may_be_remade = may_be_remade  # the same rows, with other contents each time, would look like it
        if advice is None:
            advice = "Another input, or another topic, wants an identity of its own"
            if may_be_remade:
                advice += (
                    ". If it is the same input, hand its rows as they were; only where they are made anew with other "
                    "contents each time (a time, a random id), go on by their number alone, with compare_rows=False"
                )
        super().__init__(f"{why}. {advice}")


class DeliveryError(SemelError):
    """A record was not acknowledged; the subclass says whether it is in the log, and its code what that rests on."""

    def __init__(self, message: str, code: ErrorCode | None = None, why: str | None = None) -> None:
        super().__init__(message)
        self.why = why or message  # without the record's name and the advice
        self.code = code  # a leader's last word on it; REQUEST_TIMED_OUT: there was none in time


class NotStored(DeliveryError):
    """The record is not in the log and will not come to be there. It is safe to send it anew."""


class CannotKnow(DeliveryError):
    """It may or may not be in the log. Resume with the same identity to find out; never blindly resend."""


class FencedNotStored(ProducerFenced, NotStored):
    """The record is not in the log, for a newer copy of this producer writes; this copy must stop."""


class FencedInDoubt(ProducerFenced, CannotKnow):
    """A newer copy of this producer writes, and an earlier attempt of this one may be in the log. Stop this copy."""


class TransactionAborted(NotStored):
    """A transaction is aborted: none of its rows counts, and no offset of it is committed.

    Begin another one, with the same rows.
    """


class TransactionsEnded(NotStored):
    """A transaction is not committed, and never will be; this producer makes no more. Make a new one, and begin again.

    What the coordinator did not answer in time, or refused for good, is in the text; two reasons have types of their
    own. That another copy took its place is :class:`ProducerFenced`.
    """


class TransactionTimedOut(TransactionsEnded):
    """A transaction was open for longer than ``transaction_timeout_ms``, and its coordinator aborted it."""


class TransactionalIdExpired(TransactionsEnded):
    """The coordinator forgot the transactional id (``transactional.id.expiration.ms``), with nothing open."""


class CommitInDoubt(CannotKnow):
    """Whether a transaction is committed was not answered in time: all of it is, or nothing.

    The offsets that its group has committed say which, or a look at the output. This producer ends: a new one with the
    same transactional id aborts it if it was still open, and goes on.
    """


class GroupError(SemelError):
    """A consumer cannot go on in its group as it is. What it had committed stays committed."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code  # what the coordinator answered, if it did


class NotCommitted(GroupError):
    """Offsets were not committed, none of them: whoever has these partitions next reads their rows again."""


class MemberFenced(GroupError):
    """Another consumer joined with the same ``group_instance_id`` (KIP-345); this one must stop.

    What it had committed stays; rows behind that are read again by the other one.
    """


class NoCommittedOffset(GroupError):
    """The group has committed no offset of a partition, and ``auto_offset_reset`` names no place to begin at.

    Nothing was read of it. Seek to where it shall begin, and poll again.
    """

    def __init__(self, group: str, partitions: tuple[TopicPartition, ...]) -> None:
        self.partitions = partitions
        names = ", ".join(map(str, partitions[:3])) + ", …" * (len(partitions) > 3)
        super().__init__(
            f"group {group!r} has no committed offset of {names}, and auto_offset_reset says to choose none: "
            "nothing was read of it. Seek to where it shall begin, and poll again"
        )
        self.group = group

    def __reduce__(self) -> tuple[type[NoCommittedOffset], tuple[str, tuple[TopicPartition, ...]]]:
        return NoCommittedOffset, (self.group, self.partitions)


class DataLoss(SemelError):
    """Offsets that were asked for have been deleted by retention or by a trim, or the topic was made anew, or its log
    has lost its end.

    ``lost_from`` is the first of them, ``lost_to_end`` the one behind the last, where a reader goes on; of a topic that
    is there no more, and of an end, nobody knows how many they were, and both may be the same: whatever was behind is
    gone. ``why`` is what became of them,
    ``remedy`` what whoever asked for them can do.
    """

    def __init__(
        self, partition: TopicPartition, lost_from: int, lost_to_end: int, why: str, remedy: str = ""
    ) -> None:
        self.partition, self.lost_from, self.lost_to_end = partition, lost_from, lost_to_end
        self.why, self.remedy = why, remedy
        super().__init__(
            f"{self.offsets} of topic {partition.topic!r}, "
            f"partition {partition.partition} are gone: {why}{f'. {remedy}' if remedy else ''}"
        )

    @property
    def offsets(self) -> str:
        """In words."""
        if self.lost_to_end == self.lost_from:
            return f"all offsets from {self.lost_from} on"
        return f"offsets {self.lost_from} to {self.lost_to_end - 1}"

    def __reduce__(self) -> tuple[type[DataLoss], tuple[TopicPartition, int, int, str, str]]:
        return DataLoss, (self.partition, self.lost_from, self.lost_to_end, self.why, self.remedy)


class StorageError(SemelError):
    """The data folder cannot be used."""


class JobTakenOver(SemelError):
    """Another copy of a landing job has taken it over; this one must stop. What it has committed stays, once.

    Nothing that it had not committed came into the table, or will: the other copy lands those rows.
    """


class FlowError(SemelError):
    """A step of a flow makes no sense. Told while the flow is built or planned: nothing was read, nothing stored."""

    def __init__(self, step: str, where: str, why: str, advice: str) -> None:
        self.step, self.where, self.why, self.advice = step, where, why, advice
        super().__init__(f"{step} at {where}: {why}. {advice}")


class StepFailed(SemelError):
    """A step of a flow could not go on at a row: its function raised, or what it returned cannot be used.

    No row of the entry that the row is in was stored, and no state of it. ``cause`` is what went wrong.
    """

    def __init__(self, step: str, position: str, cause: BaseException | str) -> None:
        self.step, self.position, self.cause = step, position, cause
        self.why = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}{_line_of(cause)}"
        super().__init__(
            f"step {step!r} failed at {position}: {self.why}. Nothing that it makes of this row, or of rows read "
            f"together with it, was stored; what came before stays. Mend the step, or let it tell such rows apart, and "
            f"run the flow again: it goes on from here"
        )

    def __reduce__(self) -> tuple[type[StepFailed], tuple[str, str, str]]:
        return StepFailed, (
            self.step,
            self.position,
            self.why,
        )  # it crosses processes, and a user's error may not


def _line_of(error: BaseException) -> str:
    """Where in the file of the user's function it was raised; nothing where that is in none."""
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    theirs = [each for each in lines if not each[0].startswith(_OUR_FILES) and _LIBRARIES not in each[0]]
    if not theirs:
        return ""
    first = theirs[0][0]
    line = [line for file, line in theirs if file == first][-1]
    return f" ({first.rpartition('/')[2]}:{line})"


class FlowStopped(SemelError):
    """A flow ended because one of its stages did. What its stages have decided is stored and stays."""


class SinkError(SemelError):
    """An exactly-once sink stopped before it could double or lose a row."""


class SinkFenced(SinkError):
    """Another driver took this sink id over; this one must stop. Nothing of it will be decided any more."""


class ReplayDiffers(SinkError):
    """A replayed micro-batch is not the one that was decided; the text names the exact way on."""


class NonDeterministicReplay(SinkError):
    """The same source ranges produced other rows than before."""


class ReplayUnprovable(SinkError):
    """The output log no longer holds what is needed to prove which rows are stored."""


class PlanNotSupported(SinkError):
    """The plan between source and sink shuffles or keeps state, or the source gives no ranges; nothing was written."""


class ErrorCode(IntEnum):
    """Kafka's error codes that semel sends or understands (``org.apache.kafka.common.protocol.Errors``)."""

    UNKNOWN = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    TRANSACTIONAL_ID_NOT_FOUND = 105
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    TRANSACTION_ABORTABLE = 120
    INVALID_REGULAR_EXPRESSION = 128

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later without a change (Kafka's ``RetriableException``)."""
        return self in _RETRIABLE

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """The member for ``code``; ``UNKNOWN`` for one that is not listed here."""
        try:
            return cls(code)
        except ValueError:
            return cls.UNKNOWN


_RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    }
)
