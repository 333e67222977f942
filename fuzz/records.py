"""The records of one batch, damaged under a true length and CRC."""

from __future__ import annotations

from fuzz.harness import golden_batches, main, sealed
from semel.record.batch import assemble_batch, decode_header, decode_records, payload_of

DECOMPRESSED_BYTES_MAX = 1024 * 1024


def target(data: bytes) -> None:
    batch = sealed(data)
    for record in decode_records(batch, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX):
        held = len(record.key or b"") + len(record.value or b"")
        assert held <= max(len(batch), DECOMPRESSED_BYTES_MAX)


def plain_batches() -> list[bytes]:
    """The golden batches, and small uncompressed ones that a damage is likely to hit where it counts."""
    small = []
    for batch in golden_batches():
        header = decode_header(batch)
        payload = payload_of(batch, header)
        small.append(
            bytes(
                assemble_batch(
                    payload, record_count=header.record_count, last_offset_delta=header.last_offset_delta
                )
            )
        )
    return [*golden_batches(), *small, *_first_rows()]


def _first_rows() -> list[bytes]:
    from semel.record.batch import Record, encode_batch

    headers = (("h", b"1"), ("n", None), ("", b""))
    rows = [
        Record(0, 5, b"k", b"v"),
        Record(0, 3, None, b"", headers),
        Record(0, 9, b"", None, (("h", b"x"),) * 20),
    ]
    return [bytes(encode_batch(rows[:count])) for count in (1, 2, 3)] * 8


if __name__ == "__main__":
    main("records", plain_batches(), target)
