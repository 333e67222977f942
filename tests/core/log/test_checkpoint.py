from semel.core.log.checkpoint import decode_offsets, encode_offsets
from semel.types import TopicPartition


def test_the_checkpoint_is_kafkas() -> None:
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a", 0): 2**40}
    assert encode_offsets(offsets) == b"0\n2\na 0 1099511627776\nb 1 7\n"
    assert decode_offsets(encode_offsets(offsets)) == offsets
    assert decode_offsets(encode_offsets({})) == {}


def test_anything_else_is_refused() -> None:
    for bad in [b"", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"\xff"]:
        assert decode_offsets(bad) is None
