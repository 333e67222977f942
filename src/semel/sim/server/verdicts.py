"""What a server and its clients must have said at least once in a long run: else the run has not tested it."""

from __future__ import annotations

from typing import Final

UNOPENED: Final = "start: partition not opened, the disk failed"  # rare: a planted bug asks for it
NO_ROOM: Final = "lease: refused, no room"
GRANTED_AGAIN: Final = "lease: granted, where the one before found no room"
NO_ROOM_FOR_SINK: Final = "sink: rows, record or fence refused, no room"
WROTE_AT_THE_BOUND: Final = "lease: first batch at the bound, into the room kept for it"
COPY_JOURNAL_CUT: Final = "copy: journal cut"
COPY_GREW_OLD: Final = "copy: too old, took the job over from itself"

EXPECTED: Final = (
    "append: Append",
    "append: Duplicate",
    "append: OutOfOrderSequence",
    "append: Straddling",
    "append: InvalidProducerEpoch",
    "append: UnknownProducer",
    "append: LeaseExpired",
    "append: KAFKA_STORAGE_ERROR",
    "append: THROTTLING_QUOTA_EXCEEDED",
    "append: MESSAGE_TOO_LARGE",
    "producer: part of a batch stored, which was too large",
    "producer: row refused, which is too large",
    "lease: granted",
    "lease: granted to a producer",
    "lease: outlived, the log was read",
    "lease: resumed",
    "lease: not resumed, PRODUCER_FENCED",
    "lease: not resumed, UNKNOWN_PRODUCER_ID",
    "lease: late copy at sequence 0 refused",
    NO_ROOM,
    GRANTED_AGAIN,
    WROTE_AT_THE_BOUND,
    "marker: Append",
    "marker: Duplicate",
    "marker: InvalidProducerEpoch",
    "trim: NONE",
    "trim: OFFSET_OUT_OF_RANGE",
    "trim: KAFKA_STORAGE_ERROR",
    "retention: segments removed",
    "group: offset committed",
    "group: JOIN_GROUP, FENCED_INSTANCE_ID",
    "group: SYNC_GROUP, ILLEGAL_GENERATION",
    "group: HEARTBEAT, REBALANCE_IN_PROGRESS",
    "group: HEARTBEAT, UNKNOWN_MEMBER_ID",
    "group: OFFSET_COMMIT, NONE",
    "group: OFFSET_COMMIT, ILLEGAL_GENERATION",
    "group: OFFSET_COMMIT, UNKNOWN_MEMBER_ID",
    "transaction: ADD_PARTITIONS_TO_TXN, NONE",
    "transaction: ADD_OFFSETS_TO_TXN, NONE",
    "transaction: END_TXN, NONE",
    "transaction: END_TXN, PRODUCER_FENCED",
    "transaction: INIT_PRODUCER_ID, CONCURRENT_TRANSACTIONS",
    "transaction: PRODUCE, INVALID_PRODUCER_EPOCH",
    "transaction: TXN_OFFSET_COMMIT, NONE",
    "resume: row dropped, stored already",
    "resume: refused, rows trimmed",
    "resume: refused, rows to compare trimmed",
    "resume: refused, other input",
    "resume: refused, log compacted",
    "compaction: records gone",
    "compaction: tombstones gone",
    "sink log: records gone",
    "sink log: tombstones gone",
    "sink: micro-batch committed",
    "sink: range skipped, decided already",
    NO_ROOM_FOR_SINK,
    "sink: stored rows left to a later micro-batch",
    "sink: stopped, SinkFenced",
    "sink: stopped, ReplayDiffers",
    "sink: stopped, NonDeterministicReplay",
    "sink: stopped, ReplayUnprovable",
    "sink: stopped, DataLoss",
    "sink: source made anew, read from its beginning",
    COPY_JOURNAL_CUT,
    COPY_GREW_OLD,
    "rot: found by a reader's CRC",
    "rot: partition refused after a restart",
    "page cache: records lost at a power cut",
)
