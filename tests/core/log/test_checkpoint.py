from crc32c import crc32c

from semel.core.log.checkpoint import decode_offsets, encode_offsets
from semel.types import TopicPartition


def test_the_checkpoint_is_kafkas() -> None:
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a", 0): 2**40}
    encoded = encode_offsets(offsets)
    assert encoded == b"0\n3\na 0 1099511627776\nb 1 7\n__semel-crc32c 0 %d\n" % crc32c(encoded[:28])
    assert decode_offsets(b"0\n2\na 0 1099511627776\nb 1 7\n") == offsets, "one that Kafka wrote"
    assert decode_offsets(encode_offsets(offsets)) == offsets
    assert decode_offsets(encode_offsets({})) == {}


def test_anything_else_is_refused() -> None:
    for bad in [b"", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"\xff"]:
        assert decode_offsets(bad) is None


def test_a_bit_that_rots_changes_no_offset() -> None:
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a", 0): 2**40}
    encoded = encode_offsets(offsets)
    for n in range(8 * len(encoded)):
        rotten = bytearray(encoded)
        rotten[n // 8] ^= 1 << n % 8
        found = decode_offsets(bytes(rotten))
        assert found is None or offsets.items() <= found.items()
