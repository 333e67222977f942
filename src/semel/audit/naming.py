"""What the rows that a finding shows are: read once more, for the store holds nothing of their content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from semel.audit.adding import TopicReading
from semel.audit.checks import Place
from semel.audit.read import InputRows, read_pieces
from semel.audit.tables import TableFiles, shown_rows
from semel.client.blocking import Cluster
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
            for number, (key, value) in enumerate(islice(side.read(), max(at) + 1)):
                if number in at:
                    names[at[number]] = reading.identity.readable(key, value)
        elif isinstance(side, TableFiles):
            names |= {at[number]: text for number, text in shown_rows(side, set(at), reading).items()}
        elif cluster is not None:
            names |= _in_topic(cluster, side, wanted, reading)
    return names


def _in_topic(cluster: Cluster, topic: str, wanted: set[Place], reading: TopicReading) -> dict[Place, str]:
    names = {}
    for place in wanted:
        partition = TopicPartition(topic, place.partition)
        for piece in read_pieces(cluster, {partition: place.offset}, {partition: place.offset + 1}):
            for _, table in piece.tables(passes=lambda found: True):
                for key, value in zip(*(table[name].to_pylist() for name in ("key", "value")), strict=True):
                    names[place] = reading.identity.readable(key, value)
    return names
