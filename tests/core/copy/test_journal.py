"""The bytes of a copy's journal."""

import pytest

from semel.core.copy.journal import Begun, Chunk, Held, Joined, Mark, Next, Place, decode, encode
from semel.types import ProducerGrant, TopicPartition

TP = TopicPartition("clicks", 3)
GRANT = ProducerGrant(7, 2)
PLACE = Place(TP, "id", 40, "eu.clicks", "out-id", 90, 0, 12, sequence=5, mark=Mark(39, 0xFFFFFFFF))
CHUNK = Chunk(TP, ((40, 45), (47, 48)), 50, 5, 5, 90, Mark(49, 1))


@pytest.mark.parametrize(
    "entry",
    [
        Held(GRANT, "process 12 on here", 1_700_000_000_000),
        Begun(GRANT, "process 12 on here", (PLACE, Place(TP, None, 0, "t", None, 0, 0, 0))),
        Joined(GRANT, (PLACE,)),
        Next(GRANT, (CHUNK,)),
    ],
)
def test_a_record_comes_back(entry):
    assert decode(encode(entry)) == entry


@pytest.mark.parametrize(
    "data", [None, b"", b"{}", b"[]", b'["next.2",{}]', encode(PLACE), encode(Next(GRANT, ()))[:-1]]
)
def test_what_cannot_be_read_is_not_guessed(data):
    with pytest.raises(ValueError):
        decode(data)


def test_an_output_has_the_partition_of_its_source():
    assert PLACE.output_partition == TopicPartition("eu.clicks", 3)
