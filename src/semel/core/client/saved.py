"""What is saved of a producer with an identity, as a value and as bytes (what it means: :mod:`~.resume`)."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition

Position = Any  # anything that JSON can hold; None before the first row

NO_OFFSET: Final = -1
UNCOUNTED: Final = NO_SEQUENCE - 1  # in place of a last sequence: a topic that is begun and not counted yet

_MAGIC: Final = b"semel-identity"
_FORMAT_VERSION: Final = 2
_WITHOUT_FINGERPRINTS: Final = 1  # the version before it, which is read as well
_TEXT_MAGIC: Final = "semel-identity:"
TEXT_CHARS_MAX: Final = 4096  # the metadata of an offset commit: Kafka's offset.metadata.max.bytes
_TEXT_BODY_BYTES_MAX: Final = 1024 * 1024  # what a text may unfold to


@dataclass(frozen=True, slots=True)
class SavedPartition:
    handed: int
    stored: int
    counted: int
    counted_to_offset: int
    # Of the saved epoch: none before its first acknowledged batch, UNCOUNTED until the epoch has counted.
    last_sequence: int = NO_SEQUENCE
    # Where the rows behind ``handed`` can be read back from: so many rows, none of those, lie below that offset.
    reread_rows: int = 0
    reread_offset: int = NO_OFFSET  # an older semel saved none

    @property
    def is_counted(self) -> bool:
        return self.last_sequence != UNCOUNTED

    @classmethod
    def begun(cls, offset: int, last_sequence: int = NO_SEQUENCE) -> SavedPartition:
        """None of the identity's rows lie below ``offset``, and of those behind it none was handed."""
        return cls(0, 0, 0, offset, last_sequence, 0, offset)


@dataclass(frozen=True, slots=True)
class SavedRows:
    """A fingerprint of what was sent for one position: how many rows for each topic, and a digest of all."""

    position: Position
    digest: str
    topics: Mapping[str, int]

    @property
    def rows(self) -> int:
        return sum(self.topics.values())


@dataclass(frozen=True, slots=True)
class SavedIdentity:
    """A producer's identity and its input position, as one value.

    ``SavedIdentity("loader")`` is a new one. ``position`` is whatever the producer was given with
    ``send(position=…)``; the counts belong to it, so that the two must be kept together.
    """

    name: str
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    position: Position = None
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, SavedPartition] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # UUIDs; without those that have none
    recent: Sequence[SavedRows] = ()  # up to the position, in order (:mod:`~.fingerprint`)
    earlier_ids: Sequence[
        int
    ] = ()  # producer ids that the name had, as long as rows of theirs may come again

    def to_text(self) -> str:
        """The identity as text of at most 4096 characters, for the metadata of an offset commit.

        Raises ValueError when it is longer (about 150 partitions): such an identity needs a file.
        """
        body = base64.b85encode(zlib.compress(encode_identity(self), 9)).decode()
        if len(_TEXT_MAGIC) + len(body) > TEXT_CHARS_MAX:
            raise ValueError(
                f"identity {self.name!r} with {len(self.partitions)} partitions takes "
                f"{len(_TEXT_MAGIC) + len(body)} characters, above {TEXT_CHARS_MAX}: keep it in a file"
            )
        return _TEXT_MAGIC + body

    @classmethod
    def from_text(cls, text: str) -> SavedIdentity:
        """What :meth:`to_text` gave. Raises ValueError when ``text`` is no identity, or a damaged one."""
        found = decode_text(text)
        if isinstance(found, Unreadable):
            raise ValueError(f"cannot read the identity: {found.why}")  # noqa: TRY004
        return found


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The saved bytes are not an identity; the text says why."""

    why: str


def encode_identity(saved: SavedIdentity) -> bytes:
    """One line of magic, version and CRC-32, one line of JSON."""
    body = json.dumps(
        {
            "name": saved.name,
            "producer_id": saved.producer_id,
            "producer_epoch": saved.producer_epoch,
            "position": saved.position,
            "partition_counts": dict(saved.partition_counts),
            "partitions": [
                [
                    *tp,
                    item.handed,
                    item.stored,
                    item.counted,
                    item.counted_to_offset,
                    item.last_sequence,
                    *_reread(item),
                ]
                for tp, item in sorted(saved.partitions.items())
            ],
            "topic_ids": dict(saved.topic_ids),
            "recent": [[item.position, item.digest, dict(item.topics)] for item in saved.recent],
            "earlier_ids": list(saved.earlier_ids),
        },
        separators=(",", ":"),
    ).encode()
    return b"%s %d %08x\n%s\n" % (_MAGIC, _FORMAT_VERSION, zlib.crc32(body), body)


def _reread(item: SavedPartition) -> tuple[int, ...]:
    """As distances, which are mostly small, for a text has little room; nothing where it is not known."""
    if item.reread_offset == NO_OFFSET:
        return ()
    return item.counted - item.reread_rows, item.counted_to_offset - item.reread_offset


def _partition(
    handed: int, stored: int, counted: int, counted_to_offset: int, last_sequence: int, *reread: int
) -> SavedPartition:
    if not reread:
        return SavedPartition(handed, stored, counted, counted_to_offset, last_sequence)
    rows, offsets = reread
    return SavedPartition(
        handed,
        stored,
        counted,
        counted_to_offset,
        last_sequence,
        counted - rows,
        counted_to_offset - offsets,
    )


def decode_identity(stored: bytes) -> SavedIdentity | Unreadable:
    """The identity, or why these bytes are none."""
    first, _, rest = stored.partition(b"\n")
    body = rest.removesuffix(b"\n")
    parts = first.split(b" ")
    if len(parts) != 3 or parts[0] != _MAGIC:
        return Unreadable("it is not a saved producer identity")
    if parts[1] not in (b"%d" % _WITHOUT_FINGERPRINTS, b"%d" % _FORMAT_VERSION):
        return Unreadable(
            f"it has format version {parts[1].decode(errors='replace')}, of a newer semel; this one reads "
            f"{_WITHOUT_FINGERPRINTS} and {_FORMAT_VERSION}"
        )
    if parts[2] != b"%08x" % zlib.crc32(body):
        return Unreadable("its checksum does not match: the file is damaged")
    try:
        fields = json.loads(body)
        return SavedIdentity(
            fields["name"],
            fields["producer_id"],
            fields["producer_epoch"],
            fields["position"],
            fields["partition_counts"],
            {
                TopicPartition(topic, partition): _partition(*numbers)
                for topic, partition, *numbers in fields["partitions"]
            },
            fields.get("topic_ids", {}),
            tuple(SavedRows(*item) for item in fields.get("recent", ())),
            tuple(fields.get("earlier_ids", ())),
        )
    except (ValueError, KeyError, TypeError) as error:
        return Unreadable(f"its content is not an identity ({error})")


def decode_text(text: str) -> SavedIdentity | Unreadable:
    """The identity in the text, or why there is none."""
    if not text.startswith(_TEXT_MAGIC) or len(text) > TEXT_CHARS_MAX:
        return Unreadable("it is not a saved producer identity")
    unfold = zlib.decompressobj()
    try:
        body = unfold.decompress(base64.b85decode(text[len(_TEXT_MAGIC) :]), _TEXT_BODY_BYTES_MAX)
    except (ValueError, binascii.Error, zlib.error):
        return Unreadable("it is damaged")
    return decode_identity(body)
