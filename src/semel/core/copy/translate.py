"""What an offset of the source is at the destination: exact, whatever markers, gaps and others' rows lie in between.

The journal says which rows are which sequences of which grant, and the log which offset has a sequence. Neighbouring
chunks are kept as one piece, so that far more rows are known than records; what is older than the pieces is forgotten,
and said to be.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from semel.core.copy.journal import Begun, Chunk, Entry, Joined, Next, Place
from semel.core.copy.spans import Spans, first_rows, joined, row_count, rows_before
from semel.types import ProducerGrant, TopicPartition

PIECE_ROWS_MIN: Final = 50_000  # of one that is not joined any further
PIECES_MAX: Final = 2_000  # of a partition


@dataclass(frozen=True, slots=True)
class At:
    """The offset itself."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtRow:
    """Where ``grant``'s row of this sequence stands, at or behind ``output_end``; ``is_behind``: behind it."""

    grant: ProducerGrant
    sequence: int
    output_end: int
    is_behind: bool


@dataclass(frozen=True, slots=True)
class NotYet:
    """It is not copied so far."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """It is further back than is known; ``known_from`` is the first offset that is."""

    known_from: int


Translated: TypeAlias = At | AtRow | NotYet | Forgotten


@dataclass(frozen=True, slots=True)
class _Piece:
    grant: ProducerGrant
    spans: Spans
    sequence: int
    output_end: int

    def followed_by(self, other: _Piece) -> _Piece | None:
        """Both as one, where they are one stretch of one grant's rows."""
        count = row_count(self.spans)
        if count >= PIECE_ROWS_MIN or self.grant != other.grant or self.sequence + count != other.sequence:
            return None
        return replace(self, spans=joined((*self.spans, *other.spans)))


@dataclass(slots=True)
class Translation:
    """Fed with the records of a journal that count, in their order."""

    _places: dict[TopicPartition, Place] = field(default_factory=dict)
    _pieces: dict[TopicPartition, list[_Piece]] = field(default_factory=dict)
    _known_from: dict[TopicPartition, int] = field(default_factory=dict)

    def take(self, entry: Entry) -> None:
        """One more record."""
        if isinstance(entry, Begun | Joined):
            for place in entry.places:
                self._begin(place)
        elif isinstance(entry, Next):
            for chunk in entry.chunks:
                self._add(chunk, entry.grant)

    def find(self, source: TopicPartition, offset: int, copied_to: int) -> Translated:
        """Of ``offset``, the next one that somebody wants to read; everything in front of ``copied_to`` is stored."""
        place = self._places.get(source)
        if place is None or offset > copied_to:
            return NotYet()
        if offset <= place.start:
            return At(place.output_start)
        if offset < self._known_from[source]:
            return Forgotten(self._known_from[source])
        pieces = self._pieces.get(source, [])
        if not pieces:
            return At(place.output_end)
        index = bisect_right(pieces, offset - 1, key=lambda piece: piece.spans[-1][1] - 1)
        is_behind = index == len(pieces)
        piece = pieces[-1] if is_behind else pieces[index]
        row = rows_before(piece.spans, offset) - is_behind
        return AtRow(piece.grant, piece.sequence + row, piece.output_end, is_behind)

    def _begin(self, place: Place) -> None:
        """What was planned behind it never came, under that grant."""
        known = self._places.get(place.source)
        if known is not None and known.topic_id != place.topic_id:
            self._pieces.pop(place.source, None)
            del self._known_from[place.source]
        self._known_from.setdefault(place.source, place.offset)
        self._places[place.source] = place
        pieces = self._pieces.get(place.source, [])
        while pieces and pieces[-1].spans[-1][1] > place.offset:
            last = pieces.pop()
            kept = first_rows(last.spans, rows_before(last.spans, place.offset))
            if kept:
                pieces.append(replace(last, spans=kept))

    def _add(self, chunk: Chunk, grant: ProducerGrant) -> None:
        if not chunk.spans:
            return
        pieces = self._pieces.setdefault(chunk.source, [])
        new = _Piece(grant, chunk.spans, chunk.sequence, chunk.output_end)
        both = pieces[-1].followed_by(new) if pieces else None
        if both is not None:
            pieces[-1] = both
            return
        pieces.append(new)
        if len(pieces) > PIECES_MAX:
            gone = PIECES_MAX // 10
            self._known_from[chunk.source] = pieces[gone - 1].spans[-1][1]
            del pieces[:gone]
