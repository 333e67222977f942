"""What the rows that a finding shows are: read once more, for the store holds nothing of their content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

import pyarrow as pa

from semel.audit.adding import TopicReading, columns_of, value_mapper
from semel.audit.checks import Place
from semel.audit.contents import PARTITION, Contents
from semel.audit.read import InputRows, read_pieces
from semel.audit.tables import TableFiles, place_of, rows_at, rows_of_places, shown_rows
from semel.client.blocking import Cluster
from semel.core.land.columns import OFFSET
from semel.types import TopicPartition

Side = str | InputRows | TableFiles  # a topic, the lines of a file, or a table


def name_places(
    clusters: Mapping[bool, Cluster | None],
    places: Iterable[Place],
    sides: Mapping[bool, tuple[Side, TopicReading]],
) -> dict[Place, str]:
    """The identity of rows that a finding points at, read again; rows that are gone stay without a name.

    Of ``clusters`` and ``sides`` True is the input's, and False the output's.
    """
    names: dict[Place, str] = {}
    by_side: dict[bool, set[Place]] = {}
    for place in places:
        by_side.setdefault(place.in_input, set()).add(place)
    for in_input, wanted in by_side.items():
        side, reading = sides[in_input]
        cluster = clusters[in_input]
        at = {place.offset: place for place in wanted}
        if isinstance(side, InputRows):
            mapped = value_mapper(reading)
            for number, (key, value) in enumerate(islice(side.read(), max(at) + 1)):
                if number in at:
                    line = mapped(TopicPartition(side.name, 0), columns_of([key], [value], number))
                    names[at[number]] = reading.identity.readable(key, line.column("value")[0].as_py())
        elif isinstance(side, TableFiles):
            names |= {at[number]: text for number, text in shown_rows(side, set(at), reading).items()}
        elif cluster is not None:
            names |= _in_topic(cluster, side, wanted, reading)
    return names


def name_differences(
    clusters: Mapping[bool, Cluster | None],
    examples: Iterable[Place],
    sides: Mapping[bool, tuple[Side, TopicReading]],
    contents: Contents,
) -> dict[Place, str]:
    """Which columns of these output rows are not what the input has for them."""
    contents = replace(contents, unjudged={})  # what is counted there was counted
    output = sides[False][0]
    held = {
        (place.partition, place.offset): place for place in examples
    }  # by partition and offset of the record
    if isinstance(output, TableFiles):
        rows = rows_at(output, {offset for _, offset in held}, [PARTITION, OFFSET])
        held = {place_of(row): held[0, number] for number, row in rows}
    found: dict[bool, dict[tuple[int, int], pa.Table]] = {}
    topic = next((side for side, _ in sides.values() if isinstance(side, str)), None)
    for in_input, (side, reading) in sides.items():
        if isinstance(side, TableFiles):
            placed = rows_of_places(side, set(held), topic, contents.columns.names)
            found[in_input] = {at: contents.of_rows(row) for at, row in placed}
        else:
            records = _records_at(clusters[in_input], side, held, reading)
            found[in_input] = {at: contents.of_records(at[0], record) for at, record in records}
    texts = {
        place: contents.differences(found[True][at], found[False][at])
        for at, place in held.items()
        if at in found[True] and at in found[False]
    }
    return {place: text for place, text in texts.items() if text}


def _records_at(
    cluster: Cluster | None, topic: Side, places: Iterable[tuple[int, int]], reading: TopicReading
) -> Iterator[tuple[tuple[int, int], pa.RecordBatch]]:
    """The records at these partitions and offsets, each by itself."""
    if cluster is None or not isinstance(topic, str):
        return
    mapped = value_mapper(reading)
    for number, offset in places:
        tp = TopicPartition(topic, number)
        for piece in read_pieces(cluster, {tp: offset}, {tp: offset + 1}):
            for _, table in piece.tables(
                include_headers=reading.wants_headers,
                include_timestamp_ms=reading.wants_timestamp_ms,
                passes=lambda found: True,
            ):
                for batch in table.to_batches():
                    yield (number, offset), mapped(tp, batch)


def _in_topic(cluster: Cluster, topic: str, wanted: set[Place], reading: TopicReading) -> dict[Place, str]:
    at = {(place.partition, place.offset): place for place in wanted}
    return {
        at[where]: reading.identity.readable(
            record.column("key")[0].as_py(), record.column("value")[0].as_py()
        )
        for where, record in _records_at(cluster, topic, at, reading)
    }
