"""What lies at both ends of the jobs, and what their journals add up to.

Which records of a journal count is worked out here anew, by the order of the HELDs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from semel.core.copy.journal import Begun, Chunk, Held, Joined, Next, decode
from semel.sim.copies.ledger import SeenLog, SiteLedger, TopicLog
from semel.sim.copies.story import CopyJob, CopyStory
from semel.types import ProducerGrant, TopicPartition

_decode = lru_cache(4_096)(decode)


class SeenHeld(NamedTuple):
    """A copy took the job over, and everybody could read so from ``seen_ms`` on."""

    entry: Held
    seen_ms: int


@dataclass(slots=True)
class JournalSeen:
    """What counts in the journal of one job."""

    consumed: int = 0  # records
    ranks: dict[ProducerGrant, int] = field(
        default_factory=dict
    )  # of the holders, by the order of their HELDs
    holder: ProducerGrant | None = None
    held: list[SeenHeld] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    output_ids: set[str | None] = field(default_factory=set)
    planned: dict[tuple[TopicPartition, ProducerGrant], list[Chunk]] = field(
        default_factory=dict
    )  # by source

    def read(self, log: SeenLog, now_ms: int) -> None:
        """What came since."""
        new, self.consumed = log.records[self.consumed :], len(log.records)
        for record in new:
            entry = _decode(record.value)
            if isinstance(entry, Held):
                self.ranks.setdefault(entry.grant, len(self.ranks))
                self.holder = entry.grant
                self.held.append(SeenHeld(entry, now_ms))
            elif entry.grant != self.holder:
                continue
            elif isinstance(entry, Next):
                for chunk in entry.chunks:
                    self.planned.setdefault((chunk.source, entry.grant), []).append(chunk)
            else:
                assert isinstance(entry, Begun | Joined)
                self.output_ids |= {place.output_id for place in entry.places}
                if isinstance(entry, Begun):
                    self.begun.append(entry)


class CopyView:
    """One job, between the ledgers of the two sites."""

    def __init__(self, story: CopyStory, job: CopyJob, source: SiteLedger, destination: SiteLedger) -> None:
        self.story, self.job = story, job
        self.source, self.destination = source, destination
        self.journal = JournalSeen()

    def refresh(self) -> None:
        """After a look."""
        journal = self.destination.log(TopicPartition(self.job.journal, 0))
        if journal is not None:
            self.journal.read(journal, self.story.now_ms())

    def output_of(self, source: TopicPartition) -> TopicPartition:
        """Where its rows go."""
        return TopicPartition(self.job.prefix + source.topic, source.partition)

    def source_of(self, output: TopicPartition) -> TopicPartition:
        return TopicPartition(output.topic.removeprefix(self.job.prefix), output.partition)

    def outputs(self) -> Iterator[tuple[TopicLog, SeenLog]]:
        """Those that the journal names. What was made under such a name since is none of the job's."""
        for place, log in self.destination.logs.items():
            if place.topic_id in self.journal.output_ids:
                yield place, log

    def output_log(self, source: TopicPartition) -> TopicLog | None:
        """Where the rows of ``source`` went."""
        output = self.output_of(source)
        return next((place for place, _ in self.outputs() if place.tp == output), None)

    def sources(self) -> list[TopicPartition]:
        """All that there ever were of the job's."""
        return sorted({place.tp for place in self.source.logs if place.tp.topic in self.job.topics})

    def places_of(self, source: TopicPartition) -> list[TopicLog]:
        """In the topics that had the name, one after the other."""
        return [place for place in self.source.logs if place.tp == source]

    def logs_of(self, source: TopicPartition) -> list[SeenLog]:
        """The same."""
        return [self.source.logs[place] for place in self.places_of(source)]
