"""Every codec, on damaged streams of its own and of the others."""

from __future__ import annotations

from fuzz.harness import golden_batches, main
from semel.errors import CorruptRecordBatch
from semel.record.batch import HEADER_BYTES, decode_header
from semel.record.compression import Compression, compress, decompress

DECOMPRESSED_BYTES_MAX = 256 * 1024


def target(data: bytes) -> None:
    accepted = 0
    for compression in Compression:
        if compression is Compression.NONE:
            continue
        try:
            plain = decompress(data, compression, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
        except CorruptRecordBatch:
            continue
        assert len(plain) <= DECOMPRESSED_BYTES_MAX
        accepted += 1
    if not accepted:
        raise CorruptRecordBatch("by every codec")


def streams() -> list[bytes]:
    packed = [batch[HEADER_BYTES:] for batch in golden_batches() if decode_header(batch).compression]
    bombs = [bytes(compress(bytes(DECOMPRESSED_BYTES_MAX), codec)) for codec in Compression if codec]
    return packed + bombs


if __name__ == "__main__":
    main("compression", streams(), target)
