import pytest

from semel.core.log.names import LOG_SUFFIX, file_name, folder_of, offset_of, partition_of, topic_name_error
from semel.types import TopicPartition


def test_file_names_are_kafkas() -> None:
    assert file_name(42, LOG_SUFFIX) == "00000000000000000042.log"
    assert offset_of("00000000000000000042.log", LOG_SUFFIX) == 42


@pytest.mark.parametrize("name", ["42.log", "00000000000000000042.index", "0000000000000000004x.log", ".log"])
def test_other_files_have_no_offset(name: str) -> None:
    assert offset_of(name, LOG_SUFFIX) is None


def test_a_folder_names_its_partition() -> None:
    name = TopicPartition("a-1.b", 17)
    assert partition_of(folder_of(name)) == name
    for other in ["a", "a-", "-1", "a-01", "a-1.0f-delete", "meta.properties"]:
        assert partition_of(other) is None


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249])
def test_good_topic_names(name: str) -> None:
    assert topic_name_error(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ü", "a b", "x" * 250, "a\n"])
def test_bad_topic_names(name: str) -> None:
    assert topic_name_error(name) is not None
