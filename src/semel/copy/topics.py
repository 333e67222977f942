"""The topics at both ends: which there are, and that every partition has one to go to, with the source's settings."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from semel.client.blocking import Cluster
from semel.client.model import TopicMetadata
from semel.copy.copies import CopiesAtSource
from semel.copy.plan import CopyPlan
from semel.core.copy.journal import PARTITIONS_MAX, Clean, Place
from semel.errors import BrokerError, ConfigError, DataLoss, ErrorCode, ReplayUnprovable
from semel.record.batch import BatchHeader
from semel.spark.owners import refuse_foreign_output
from semel.spark.sink_log import create_topic
from semel.spark.takeover import listed
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from semel.wording import counted

_LOG: Final = logging.getLogger("semel.copy")
# A matter of the cluster that a topic is in, or of a record's time: the source's stay as they are.
NOT_CARRIED: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "message.timestamp.type",  # the output's is always the rows' own
        "min.insync.replicas",
        "unclean.leader.election.enable",
        "remote.storage.enable",
    }
)
OWN_TIME: Final = {"message.timestamp.type": "CreateTime"}
# The source has taken its rows' times, whatever bound it had then; an output that judged them anew would end the copy.
TIME_BOUNDS: Final = ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")
UNBOUNDED: Final = str(2**63 - 1)


class CopyTopics:
    """Both clusters' topics, as far as the job is concerned."""

    def __init__(self, plan: CopyPlan, source: Cluster, destination: Cluster) -> None:
        self._plan, self._source, self._destination = plan, source, destination
        self._is_one_cluster = False
        self._copies = CopiesAtSource(plan, source, destination)

    def check_clusters(self) -> None:
        """``ConfigError`` where topics would be copied into themselves, whatever the cluster's addresses."""
        ids = {cluster.describe_cluster().cluster_id for cluster in (self._source, self._destination)}
        self._is_one_cluster = len(ids) == 1
        if self._is_one_cluster and not self._plan.prefix:
            raise ConfigError(
                f"{self._plan.source.bootstrap} and {self._plan.destination.bootstrap} are one cluster, so each topic "
                f"would be copied into itself: give a --prefix. Nothing was copied"
            )

    def wanted(self) -> dict[str, TopicMetadata]:
        """Those to copy, by name. ``ConfigError`` for one that is named and is not there."""
        names = None if self._plan.pattern is not None else self._plan.topics
        there = self._source.metadata(names).topics
        copies = self._copies.among(there, is_one_cluster=self._is_one_cluster) if names is None else ()
        found = {
            name: topic
            for name, topic in there.items()
            if topic.error_code is ErrorCode.NONE
            and self._plan.is_wanted(name, is_internal=topic.is_internal)
            and not (names is None and self._is_one_cluster and name.startswith(self._plan.prefix))
            and name not in copies
        }
        missing = sorted(set(names or ()) - set(found))
        if missing:
            raise ConfigError(
                f"there is no topic {missing[0]!r} at {self._plan.source.bootstrap}. What was copied of it before stays"
            )
        count = sum(len(topic.partitions) for topic in found.values())
        if count > PARTITIONS_MAX:
            raise ConfigError(
                f"{counted(count, 'partition')} are more than one job copies ({PARTITIONS_MAX}): split it into several"
            )
        return found

    def new_places(
        self, wanted: Mapping[str, TopicMetadata], known: Mapping[TopicPartition, Place], *, is_first: bool
    ) -> dict[TopicPartition, Place]:
        """A place for each partition that has none yet, its output made or grown where it has to be.

        ``is_first``: the job has no place at all yet, and begins where it was told to.
        """
        new = [
            TopicPartition(name, number)
            for name, topic in sorted(wanted.items())
            for number in sorted(topic.partitions)
            if TopicPartition(name, number) not in known
        ]
        if not new:
            return {}
        names = sorted({tp.topic for tp in new})
        for name in names:
            refuse_foreign_output(
                self._destination,
                self._plan.destination,
                self._plan.output_of(name),
                "Nothing was copied there: give a --prefix",
            )
        outputs = {name: self._output(name, wanted[name]) for name in names}
        places: dict[TopicPartition, Place] = {}
        starts = _listed(
            self._source,
            new,
            LATEST_TIMESTAMP if is_first and self._plan.start == "latest" else EARLIEST_TIMESTAMP,
        )
        there = {source: TopicPartition(outputs[source.topic].name, source.partition) for source in new}
        ends = listed(self._destination, list(there.values()), LATEST_TIMESTAMP)
        begins = listed(self._destination, list(there.values()), EARLIEST_TIMESTAMP)
        for source in new:
            output = there[source]
            if ends[output] > begins[output] and not self._plan.appends:
                raise ConfigError(
                    f"{output} at {self._plan.destination.bootstrap} has records already, and job {self._plan.name!r} "
                    f"has written none of them: they may be an earlier copy of the same rows, under another name or "
                    f"under a journal that was deleted. Nothing was copied there. Take another --prefix; or "
                    f"--append, if they are others' and the rows are to come behind them"
                )
            topic = outputs[source.topic]
            places[source] = Place(
                source=source,
                topic_id=_id(wanted[source.topic]),
                offset=starts[source],
                output=output.topic,
                output_id=_id(topic),
                output_end=ends[output],
                start=starts[source],
                output_start=ends[output],
                clean=Clean() if self._plan.cleans else None,
                is_blank=not self._plan.appends,
            )
        return places

    def check_outputs(self, places: Mapping[TopicPartition, Place]) -> None:
        """``ReplayUnprovable`` where an output is not the topic any more that the job has written to."""
        names = sorted({place.output for place in places.values()})
        found = self._destination.metadata(names).topics if names else {}
        for place in places.values():
            topic = found.get(place.output)
            is_there = topic is not None and topic.error_code is ErrorCode.NONE
            if is_there and place.output_id in (None, _id(topic)):
                continue
            became = "was deleted and made anew" if is_there else "was deleted"
            raise ReplayUnprovable(
                f"topic {place.output!r} at {self._plan.destination.bootstrap} {became} since job {self._plan.name!r} "
                f"wrote it, and its rows went with it. Nothing more was copied. A job of another name, to outputs of "
                f"another --prefix, copies what the source still has from the beginning"
            )

    def check_names(self, places: Mapping[TopicPartition, Place]) -> None:
        """A job's outputs are part of it, and whether it cleans."""
        for source, place in places.items():
            if (place.clean is not None) is not self._plan.cleans:
                has = "has copied with --clean" if place.clean is not None else "has copied without --clean"
                raise ConfigError(
                    f"job {self._plan.name!r} {has}, and what it knows of rows that came before fits nothing else. "
                    f"Nothing was copied now. Start it as it was, or another job, to outputs of another --prefix"
                )
            if place.output != self._plan.output_of(source.topic):
                raise ConfigError(
                    f"job {self._plan.name!r} copies {source.topic!r} to {place.output!r}, and is told to copy it to "
                    f"{self._plan.output_of(source.topic)!r}. Nothing was copied now. Give a job with another "
                    f"output another name"
                )

    def check_source(
        self, wanted: Mapping[str, TopicMetadata], places: Mapping[TopicPartition, Place]
    ) -> dict[TopicPartition, Place]:
        """The places of partitions whose topic is another one by now: where they go on, or ``DataLoss``.

        Those of topics that are gone, or not to be copied any more, stay as they are.
        """
        moved = {}
        for source, place in places.items():
            topic = wanted.get(source.topic)
            if topic is None or None in (place.topic_id, _id(topic)) or place.topic_id == _id(topic):
                continue
            if not self._plan.goes_on_after_loss:
                raise DataLoss(
                    source,
                    place.offset,
                    place.offset,
                    "the topic was deleted and made anew, and job "
                    f"{self._plan.name!r} had copied the one before up to there",
                    "Nothing of the new one was copied. --on-data-loss continue copies it from its beginning, behind "
                    "what was copied of the one before; what else that one had is lost",
                )
            _LOG.warning(
                "topic %r was deleted and made anew: what was not copied of the one before offset %d is lost, and the "
                "new one is copied from its beginning",
                source.topic,
                place.offset,
            )
            moved[source] = topic
        starts = _listed(
            self._source, [tp for tp in moved if tp.partition in moved[tp].partitions], EARLIEST_TIMESTAMP
        )
        return {tp: _begun_anew(places[tp], _id(moved[tp]), starts.get(tp, 0)) for tp in moved}

    def _output(self, name: str, topic: TopicMetadata) -> TopicMetadata:
        output = self._plan.output_of(name)
        found = self._destination.metadata([output]).topics.get(output)
        count = len(topic.partitions)
        if found is None or found.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._make(output, count, self._carried(name) | OWN_TIME)
        else:
            self._check_time(output)
            if len(found.partitions) < count:
                self._grow(output, count)
        return self._destination.topic(output, is_known_to_exist=True)

    def _grow(self, output: str, count: int) -> None:
        try:
            self._destination.add_partitions({output: count})
        except BrokerError as error:
            if error.code is not ErrorCode.INVALID_PARTITIONS:
                raise
            there = self._destination.topic(output, is_known_to_exist=True)
            if (
                len(there.partitions) < count
            ):  # else another copy of the job was faster, or an answer was lost
                raise

    def _check_time(self, output: str) -> None:
        ((setting, own),) = OWN_TIME.items()
        entry = self._destination.describe_configs([output])[output].get(setting)
        if entry is not None and entry.value not in (None, own):
            raise ConfigError(
                f"topic {output!r} at {self._plan.destination.bootstrap} has {setting}={entry.value}: its rows would "
                f"have another time than the source's. Nothing was copied there. Set it with "
                f"`semel topic alter-config {output} -c {setting}={own}`"
            )

    def _make(self, output: str, count: int, settings: dict[str, str]) -> None:
        """With those of the settings that the destination knows; what it does not know is told."""
        journal = self._plan.journal
        known = self._destination.describe_configs([journal])[journal]
        unknown = sorted(set(settings) - set(known))
        if unknown:
            _LOG.warning(
                "%s is made without %s: the destination knows no such setting", output, ", ".join(unknown)
            )
        kept = {name: value for name, value in settings.items() if name in known}
        kept |= {name: UNBOUNDED for name in TIME_BOUNDS if name in known and known[name].value != UNBOUNDED}
        try:
            create_topic(self._destination, output, count, kept)
        except BrokerError as error:
            if error.code.retriable:
                raise  # a full disk, or a leader that moves: no setting is wrong
            alike = self._alike(output) if error.code is ErrorCode.INVALID_TOPIC else None
            if alike is not None:
                raise ConfigError(
                    f"topic {output!r} cannot be made at {self._plan.destination.bootstrap}, for {alike!r} is there: "
                    f"Apache Kafka takes no two names that differ only in '.' and '_'. Nothing was copied of it. "
                    f"Leave one of the two out, and copy it with a job of its own (--name) to another --prefix"
                ) from error
            raise ConfigError(
                f"topic {output!r} cannot be made at {self._plan.destination.bootstrap} with {count} partitions and "
                f"the source's settings {kept}: {error}. Nothing was copied. Make it yourself, and start the job again"
            ) from error

    def _alike(self, output: str) -> str | None:
        """A topic of the destination whose name differs only in '.' and '_'."""
        names = self._destination.metadata(None).topics
        return next((name for name in names if name.replace(".", "_") == output.replace(".", "_")), None)

    def _carried(self, name: str) -> dict[str, str]:
        return {
            setting: entry.value
            for setting, entry in self._source.describe_configs([name])[name].items()
            if entry.value is not None
            and not (entry.is_default or entry.is_read_only or entry.is_sensitive)
            and setting not in NOT_CARRIED
        }


def time_refused(
    plan: CopyPlan, destination: Cluster, output: TopicPartition, newest_ms: int, now_ms: int, why: str
) -> ConfigError:
    """By a bound that the output has, which somebody else made, or an older semel."""
    after, before = TIME_BOUNDS
    setting = after if newest_ms > now_ms else before
    if setting not in destination.describe_configs([output.topic])[output.topic]:
        setting = "message.timestamp.difference.max.ms"  # Apache Kafka before 3.6
    return ConfigError(
        f"{output} at {plan.destination.bootstrap} does not take a batch of the source's for its rows' times{why}. It "
        f"is not stored there, and nothing behind it. Let it have them with "
        f"`semel topic alter-config {output.topic} -c {setting}={UNBOUNDED}`, and start the job again"
    )


def not_alone(plan: CopyPlan, output: TopicPartition, header: BatchHeader) -> ConfigError:
    """Of an output that was empty when the job came to it; two jobs that come at once both find it so."""
    whose = "a producer without an id" if header.producer_id < 0 else f"producer {header.producer_id}"
    return ConfigError(
        f"{output} at {plan.destination.bootstrap} was empty when job {plan.name!r} came to it, and has records of "
        f"{whose} at offset {header.base_offset} by now, in front of the job's own first row: another job or program "
        f"writes there as well, and rows of both may be there. Nothing more was copied. Take another --name and "
        f"another --prefix, and delete outputs that rows of both are in; or --append, if they are to be there"
    )


def _begun_anew(place: Place, topic_id: str | None, start: int) -> Place:
    clean = None if place.clean is None else Clean(place.clean.marks)  # its rows come of the same ones
    return replace(
        place,
        topic_id=topic_id,
        offset=start,
        start=start,
        output_start=place.output_end,
        mark=None,
        clean=clean,
    )


def _id(topic: TopicMetadata | None) -> str | None:
    return None if topic is None or topic.topic_id is None else str(topic.topic_id)


def _listed(cluster: Cluster, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
    """Of what a reader of committed rows sees."""
    wanted = dict.fromkeys(partitions, which)
    return {tp: entry.offset for tp, entry in cluster.list_offsets(wanted).items()} if wanted else {}
