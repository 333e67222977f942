"""What a job's journal adds up to: who holds it, where every partition stands, and what may be under way.

A record counts if its grant is that of the newest HELD before it, by the journal's own order alone: a log may have
forgotten the producers that it would refuse by.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from semel.core.copy.journal import Begun, Chunk, Entry, Held, Joined, Next, Place
from semel.core.copy.spans import row_count
from semel.types import ProducerGrant, TopicPartition


@dataclass(slots=True)
class CopyHistory:
    """Fed record by record; :attr:`end_offset` is the reader's."""

    end_offset: int = 0
    holder: Held | None = None
    writer: ProducerGrant | None = None  # whose rows may be under way: that of the newest BEGUN
    places: dict[TopicPartition, Place] = field(default_factory=dict)
    under_way: dict[TopicPartition, list[Chunk]] = field(default_factory=dict)  # behind the places, in order
    held_epochs: dict[int, int] = field(default_factory=dict)  # by producer id, the highest that held the job
    held_since: set[ProducerGrant] = field(
        default_factory=set
    )  # who took the job over since the newest BEGUN

    def apply(self, entry: Entry) -> bool:
        """Whether it counts."""
        if isinstance(entry, Held):
            self._hold(entry)
            return True
        if isinstance(entry, Begun) and self.holder is None:
            self._hold(Held(entry.grant, entry.owner, 0))  # the journal was cut in front of it
        if self.holder is None or entry.grant != self.holder.grant:
            return False
        if isinstance(entry, Begun):
            self.writer, self.under_way, self.held_since = entry.grant, {}, set()
            self.places = {place.source: place for place in entry.places}
        elif isinstance(entry, Joined):
            self.places |= {place.source: place for place in entry.places}
        else:
            self._plan(entry)
        return True

    def is_held_by(self, grant: ProducerGrant | None) -> bool:
        """Whether nobody has taken the job over since."""
        return self.holder is not None and self.holder.grant == grant

    def epoch_to_shut_out(self, grant: ProducerGrant) -> int:
        """The producer epoch at which ``grant``, which holds the job, shuts the writer out.

        Its own, but where the name was forgotten and its producer id is another one: then the one behind all at which
        the writer's has held the job. Whoever held it and died in front of its BEGUN may have raised it so far.
        """
        assert self.writer is not None
        if self.writer.producer_id == grant.producer_id:
            return grant.producer_epoch
        return self.held_epochs[self.writer.producer_id] + 1

    def _hold(self, entry: Held) -> None:
        self.holder = entry
        self.held_since.add(entry.grant)
        known = self.held_epochs.get(entry.grant.producer_id, -1)
        self.held_epochs[entry.grant.producer_id] = max(known, entry.grant.producer_epoch)

    def _plan(self, entry: Next) -> None:
        for chunk in entry.chunks:
            waiting = self.under_way.setdefault(chunk.source, [])
            waiting.append(chunk)
            while waiting and waiting[0].sequence + row_count(waiting[0].spans) <= chunk.acknowledged:
                self._arrived(waiting.pop(0))
            self.places[chunk.source] = written_up_to(self.places[chunk.source], chunk.output_end)

    def _arrived(self, chunk: Chunk) -> None:
        self.places[chunk.source] = replace(
            self.places[chunk.source],
            offset=chunk.end,
            sequence=chunk.sequence + row_count(chunk.spans),
            mark=chunk.mark,
            clean=chunk.clean,
        )


def written_up_to(place: Place, output_end: int) -> Place:
    """The place once its holder knows that rows of its own stand in front of ``output_end``, or nothing new."""
    if output_end == place.output_end:
        return place
    return replace(place, output_end=output_end, output_mark=None, is_blank=False)
