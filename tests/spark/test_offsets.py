"""The connector's offset grammar."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.spark.offsets import (
    epochs_from_json,
    from_json,
    ids_from_json,
    parse_assignment,
    parse_offsets,
    to_json,
)
from semel.types import TopicPartition

TP = TopicPartition


def test_json_of_topics_and_partitions():
    text = '{"a": {"0": 23, "1": -2}, "b": {"0": -1}}'
    assert parse_offsets(text, "startingOffsets") == {TP("a", 0): 23, TP("a", 1): -2, TP("b", 0): -1}


def test_a_whole_topic_by_name():
    assert parse_offsets('{"a": "earliest"}', "startingOffsets") == {TP("a", -1): -2}


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"a": 3}', '{"a": {"0": "3"}}', '{"a": {"x": 3}}', '{"a": {"0": -3}}', '{"a": {"0": true}}'],
)
def test_what_is_not_offsets_is_refused_by_the_options_name(text):
    with pytest.raises(ConfigError, match="startingOffsets"):
        parse_offsets(text, "startingOffsets")


def test_assignment():
    assert parse_assignment('{"b": [0], "a": [1, 0, 1]}') == [TP("a", 0), TP("a", 1), TP("b", 0)]


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', '{"a": [-1]}', '{"a": [true]}'])
def test_a_bad_assignment_is_refused(text):
    with pytest.raises(ConfigError, match="assign"):
        parse_assignment(text)


@given(
    st.dictionaries(st.builds(TP, st.text(min_size=1, max_size=3), st.integers(0, 20)), st.integers(0, 2**60))
)
def test_a_stream_offset_survives_the_checkpoint(offsets):
    assert from_json(to_json(offsets)) == offsets


def test_a_stream_offset_knows_its_topics_by_id():
    offsets = {TP("a", 0): 3, TP("a", 1): 0, TP("b", 0): 7}
    written = to_json(offsets, {"a": "id-of-a", "c": "of no partition here"})
    assert written == {"a": {"0": 3, "1": 0, "topic_id": "id-of-a"}, "b": {"0": 7}}
    assert (from_json(written), ids_from_json(written)) == (offsets, {"a": "id-of-a"})
    assert ids_from_json(to_json(offsets)) == {}


def test_a_stream_offset_knows_the_leader_epochs_of_its_partitions():
    offsets = {TP("a", 0): 3, TP("a", 1): 0, TP("b", 0): 7}
    written = to_json(offsets, {"a": "id-of-a"}, {TP("a", 1): 5, TP("b", 0): -1, TP("c", 0): 4})
    assert written["a"] == {"0": 3, "1": 0, "topic_id": "id-of-a", "leader_epochs": {"1": 5}}
    assert (from_json(written), ids_from_json(written)) == (offsets, {"a": "id-of-a"})
    assert epochs_from_json(written) == {TP("a", 1): 5}
    assert epochs_from_json(to_json(offsets)) == {}
