"""What stands in a job's journal, and its bytes. One partition of the job's own topic, read from its start.

======  ==================================================================================================
HELD    a copy of the job took it over; records of any other count no more
BEGUN   who was before is shut out, and this is where every partition stands
JOINED  partitions that were not there before, and where they begin
NEXT    the rows that come next, and their sequences; durable before any of them is sent
======  ==================================================================================================

A record is a JSON array, its kind and format first. Who cannot read one stops, for it may say who holds the job.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from semel.core.copy.spans import Spans
from semel.types import ProducerGrant, TopicPartition

PARTITIONS_MAX: Final = 5000  # of one job: BEGUN has a line for each, and is one record


class Mark(Struct, frozen=True, array_like=True):
    """One batch of a log, by which that log is known again: its last offset, and the CRC that its producer gave it."""

    last_offset: int
    crc: int


class LineageMark(Struct, frozen=True, array_like=True):
    """The largest (offset, index) of one partition, ``topic[@id]/partition``, that rows have come of."""

    origin: str
    offset: int
    index: int


class Clean(Struct, frozen=True, array_like=True):
    """What takes each row of a doubling writer once, at one place.

    Rows at or behind ``judged_to`` are to be judged by ``marks``. Of those in front of it, which were judged before and
    not all sent, only ``rest`` is to be copied.
    """

    marks: tuple[LineageMark, ...] = ()
    rest: Spans = ()
    judged_to: int = 0


class Place(Struct, frozen=True, array_like=True):
    """Where one partition of the source stands: everything in front of ``offset`` is copied, nothing else is.

    ``sequence`` rows of it were written under the grant that says so. Rows that come stand at or behind ``output_end``;
    the job's first one stood at or behind ``output_start``, and came from ``start`` or behind it. ``mark`` is the
    source's batch that was copied last; ``output_mark`` the output's in front of ``output_end``, where that grant has
    written nothing in front of it. ``is_blank``: the job came to an empty output, and has no row there yet. Its first
    one then has nobody's in front of it but fences of the job's own, or another job has come at the same time.
    """

    source: TopicPartition
    topic_id: str | None
    offset: int
    output: str  # the topic; its partition has the source's number
    output_id: str | None
    output_end: int
    start: int
    output_start: int
    sequence: int = 0
    mark: Mark | None = None
    output_mark: Mark | None = None
    clean: Clean | None = None  # of a job that cleans
    is_blank: bool = False

    @property
    def output_partition(self) -> TopicPartition:
        """Where its rows go."""
        return TopicPartition(self.output, self.source.partition)


class Chunk(Struct, frozen=True, array_like=True):
    """Rows of one partition that come next. ``sequence`` counts on from 0 and does not wrap.

    ``end`` is the source's offset behind them, and behind what is no row there, or is not to be copied. Without
    ``spans`` there was nothing else. ``acknowledged`` rows of the partition
    were surely stored when this was said, and all others stand at or behind ``output_end``.
    """

    source: TopicPartition
    spans: Spans
    end: int
    sequence: int
    acknowledged: int
    output_end: int
    mark: Mark | None = None
    clean: Clean | None = None  # behind these rows


class Held(Struct, frozen=True, array_like=True, tag="held.1"):
    """``grant`` took the job over; ``owner`` is for whoever lost it."""

    grant: ProducerGrant
    owner: str
    held_ms: int


class Begun(Struct, frozen=True, array_like=True, tag="begun.1"):
    """Where all partitions stand, by the holder ``grant``; at a start, and now and then while it runs."""

    grant: ProducerGrant
    owner: str
    places: tuple[Place, ...]


class Joined(Struct, frozen=True, array_like=True, tag="joined.1"):
    """Partitions that the job had not before, or whose topic is another one now."""

    grant: ProducerGrant
    places: tuple[Place, ...]


class Next(Struct, frozen=True, array_like=True, tag="next.1"):
    """The holder's next rows."""

    grant: ProducerGrant
    chunks: tuple[Chunk, ...]


Entry: TypeAlias = Held | Begun | Joined | Next
_READER: Final[msgspec.json.Decoder[Entry]] = msgspec.json.Decoder(Entry)


def encode(entry: Entry) -> bytes:
    """For the journal."""
    return msgspec.json.encode(entry)


def decode(data: bytes | None) -> Entry:
    """The inverse; ``ValueError`` for what is no record of a kind and format that this semel knows."""
    try:
        return _READER.decode(data or b"")
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
