"""Which topics of the source are copies already, made by other jobs: a pattern would copy them back, and so on.

Two jobs that copy all topics both ways, each under a prefix, would make a copy of each copy: ``a.t``, ``b.a.t``,
``a.b.a.t``, one more with each run. The jobs that write to the source have their journals there, which name each output
and the id of the topic that it came of. So a job of a pattern passes over what came from its destination, and between
topics of one cluster over what came of its own outputs. (A name would say less: a prefix may be anybody's.)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from semel.client.blocking import Cluster
from semel.client.model import TopicMetadata
from semel.copy.plan import JOURNAL_PREFIX, CopyPlan
from semel.core.copy.journal import Begun, Joined, Place, decode
from semel.errors import DataLoss, ErrorCode
from semel.record.batch import decode_records
from semel.spark.reading import read_range
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

_LOG: Final = logging.getLogger("semel.copy")


class CopiesAtSource:
    """Read further with each question; each topic that is passed over is told once."""

    def __init__(self, plan: CopyPlan, source: Cluster, destination: Cluster) -> None:
        self._plan, self._source, self._destination = plan, source, destination
        self._positions: dict[str, int] = {}
        self._made: dict[str, dict[str, Place]] = {}  # by journal, and by output: one of its partitions
        self._told: set[str] = set()

    def among(self, topics: Mapping[str, TopicMetadata], *, is_one_cluster: bool) -> set[str]:
        """Those of ``topics``, which are all that the source has."""
        journals = [
            name
            for name, topic in topics.items()
            if name.startswith(JOURNAL_PREFIX) and topic.error_code is ErrorCode.NONE
        ]
        for journal in journals:
            self._read(journal)
        made = {
            name: (journal, place)
            for journal in journals
            for name, place in self._made[journal].items()
            if name in topics and place.output_id in (None, _id(topics[name]))
        }
        origins = self._origins({place.source.topic for _, place in made.values()}, is_one_cluster)
        found = {
            name
            for name, (_, place) in made.items()
            if place.source.topic in origins
            and origins[place.source.topic] in (None, place.topic_id or origins[place.source.topic])
        }
        for name in sorted(found - self._told):
            if self._plan.is_wanted(name, is_internal=False):
                self._tell(name, *made[name])
        return found

    def _origins(self, names: set[str], is_one_cluster: bool) -> dict[str, str | None]:
        """Of ``names`` those topics that this job would copy back to, with their ids."""
        if is_one_cluster:
            own = self._made.get(self._plan.journal, {})
            return {name: own[name].output_id for name in names if name in own}
        there = self._destination.metadata(sorted(names)).topics if names else {}
        return {name: _id(topic) for name, topic in there.items() if topic.error_code is ErrorCode.NONE}

    def _tell(self, name: str, journal: str, place: Place) -> None:
        self._told.add(name)
        _LOG.warning(
            "topic %r at %s is passed over: job %r has copied it there from %r, which would come back. Named, and not "
            "by a --pattern, it is copied",
            name,
            self._plan.source.bootstrap,
            journal.removeprefix(JOURNAL_PREFIX),
            place.source.topic,
        )

    def _read(self, journal: str) -> None:
        partition = TopicPartition(journal, 0)
        start, end = (
            self._source.list_offsets({partition: which})[partition].offset
            for which in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        )
        position = max(start, self._positions.get(journal, 0))
        made = self._made.setdefault(journal, {})
        try:
            for batches in read_range(self._source, partition, position, end):
                for batch, header in batches:
                    for record in () if header.is_control else decode_records(batch):
                        try:
                            entry = decode(record.value)
                        except ValueError:
                            continue  # of a newer semel: it is for that job to say
                        if isinstance(entry, Begun | Joined):
                            made |= {place.output: place for place in entry.places}
        except DataLoss:
            return  # it was cut meanwhile: the next look reads it from there
        self._positions[journal] = end


def _id(topic: TopicMetadata) -> str | None:
    return None if topic.topic_id is None else str(topic.topic_id)
