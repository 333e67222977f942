"""Positions of consumer groups, translated: what a group has read of the source, it has read of the copy."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from semel.client.blocking import Cluster
from semel.copy.plan import CopyPlan
from semel.copy.proving import LOOK_TIMEOUT_MS
from semel.core.copy.journal import Place
from semel.core.copy.translate import At, AtRow, Forgotten, Translation
from semel.errors import BrokerError
from semel.sequence import advance, distance
from semel.spark.reading import headers_in
from semel.spark.takeover import listed
from semel.types import LATEST_TIMESTAMP, ProducerGrant, TopicPartition

_LOG = logging.getLogger("semel.copy")


class CopyGroups:
    """Commits at the destination what the job's groups have committed at the source, and never goes back."""

    def __init__(self, plan: CopyPlan, source: Cluster, destination: Cluster) -> None:
        self._plan, self._source, self._destination = plan, source, destination
        self._done: dict[tuple[str, TopicPartition], int] = {}  # the source's positions that are translated
        self._told: set[tuple[str, TopicPartition]] = set()

    def translate(self, translation: Translation, places: Mapping[TopicPartition, Place]) -> None:
        """To be called when everything in front of ``places`` is stored."""
        for group in self._plan.groups:
            try:
                self._translate(group, translation, places)
            except BrokerError as error:  # it has members there, or its coordinator moves
                _LOG.warning("positions of group %r are not committed at the destination: %s", group, error)

    def _translate(
        self, group: str, translation: Translation, places: Mapping[TopicPartition, Place]
    ) -> None:
        wanted = {
            source: each.offset
            for source, each in self._source.committed_offsets(group, list(places)).items()
            if each.offset >= 0 and self._done.get((group, source)) != each.offset
        }
        found = {
            source: (offset, there)
            for source, offset in wanted.items()
            if (there := self._found(group, source, offset, translation, places[source])) is not None
        }
        if not found:
            return
        outputs = {source: places[source].output_partition for source in found}
        before = self._destination.committed_offsets(group, list(outputs.values()))
        ahead = {
            outputs[source]: there
            for source, (_, there) in found.items()
            if there > before[outputs[source]].offset
        }
        if ahead:
            self._destination.commit_offsets(group, ahead)
        self._done |= {(group, source): offset for source, (offset, _) in found.items()}

    def _found(
        self, group: str, source: TopicPartition, offset: int, translation: Translation, place: Place
    ) -> int | None:
        translated = translation.find(source, offset, place.offset)
        if isinstance(translated, At):
            return translated.offset
        if isinstance(translated, AtRow):
            return self._offset_of(place.output_partition, translated)
        if isinstance(translated, Forgotten) and (group, source) not in self._told:
            self._told.add((group, source))
            _LOG.warning(
                "group %r is at offset %d of %s, and what that is at the destination is known from %d on: it is not "
                "translated before the group has come there",
                group,
                offset,
                source,
                translated.known_from,
            )
        return None

    def _offset_of(self, output: TopicPartition, row: AtRow) -> int:
        end = listed(self._destination, [output], LATEST_TIMESTAMP)[output]
        wanted = advance(0, row.sequence)
        for header in headers_in(
            self._destination,
            output,
            row.output_end,
            end,
            fail_on_data_loss=False,
            poll_timeout_ms=LOOK_TIMEOUT_MS,
        ):
            if header.is_control or ProducerGrant(header.producer_id, header.producer_epoch) != row.grant:
                continue
            behind = distance(wanted, header.base_sequence)
            if behind <= header.last_offset_delta:  # below 0: it is gone there, and this is the next one
                return header.base_offset + max(0, behind) + row.is_behind
        return end
