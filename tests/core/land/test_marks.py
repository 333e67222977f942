"""Marks and the names of files: no two things have one name, and an id comes back as it was."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.land.marks import (
    batch_marks,
    check_job,
    epoch_mark,
    epoch_of,
    file_name,
    files_mark,
    held_batch,
    held_topic_id,
    merged_name,
    offset_mark,
    topic_marks,
    was_never_committed,
)
from semel.errors import ConfigError
from semel.types import TopicPartition

JOBS = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True)


@given(number=st.integers(min_value=1, max_value=2**128 - 1))
def test_a_topics_id_comes_back_as_it_was(number: int) -> None:
    topic_id = str(UUID(int=number))
    marks = topic_marks("j", "t", topic_id)
    assert all(-(2**63) <= mark < 2**63 for mark in marks.values())
    assert held_topic_id(marks.get, "j", "t") == (True, topic_id)
    assert held_topic_id(marks.get, "j", "other") == (False, None)


def test_a_batch_comes_back_as_it_was() -> None:
    source = TopicPartition("t", 3)
    marks = batch_marks("j", source, None, 19, 2**32 - 1)
    assert held_batch(marks.get, "j", source, None) == (19, 2**32 - 1)
    assert held_batch(marks.get, "j", TopicPartition("t", 2), None) is None
    assert held_batch(batch_marks("j", source, None).get, "j", source, None) is None


def test_brokers_without_ids_are_known_too() -> None:
    assert held_topic_id(topic_marks("j", "t", None).get, "j", "t") == (True, None)


@given(st.lists(st.tuples(JOBS, JOBS, st.integers(0, 20)), unique=True, min_size=2, max_size=2))
def test_no_two_partitions_have_one_mark(named: list[tuple[str, str, int]]) -> None:
    one, other = (
        {
            epoch_mark(job),
            files_mark(job),
            offset_mark(job, TopicPartition(topic, number), None),
            *batch_marks(job, TopicPartition(topic, number), None),
        }
        for job, topic, number in named
    )
    assert one != other
    assert len(one) == 5


@pytest.mark.parametrize("job", ["", "a/b", "a b", "x" * 101, "é"])
def test_what_is_no_name_is_refused(job: str) -> None:
    with pytest.raises(ConfigError, match="a name is at most 100"):
        check_job(job)


@given(job=JOBS, other=JOBS, epoch=st.integers(1, 99), number=st.integers(1, 99))
def test_a_file_is_of_one_job_only(job: str, other: str, epoch: int, number: int) -> None:
    for name in (file_name(job, epoch, number), merged_name(job, epoch, 7, number)):
        assert epoch_of(name, job) == epoch
        assert other == job or epoch_of(name, other) is None


@pytest.mark.parametrize(
    ("epoch", "number", "is_garbage"),
    [
        (1, 5, True),
        (1, 4, False),
        (2, 5, False),
        (3, 9, False),
    ],  # the second epoch holds; 4 was committed last
)
def test_only_older_files_behind_the_last_commit_were_surely_never_committed(
    epoch: int, number: int, is_garbage: bool
) -> None:
    assert was_never_committed(file_name("j", epoch, number), "j", 2, 4) is is_garbage


@pytest.mark.parametrize(
    "name", ["part-0.parquet", "semel-k-1-9.parquet", "semel-j-1-9.parquet.crc", "semel-j-1-m2-9.parquet"]
)
def test_files_of_others_are_left(name: str) -> None:
    assert not was_never_committed(name, "j", 2, 4)
