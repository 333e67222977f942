"""A batch that lies where another one was."""

from __future__ import annotations

import pytest

from semel.core.same_batch import is_another
from semel.record.batch import DELETE_HORIZON_BIT, BatchHeader, Record, decode_header, encode_batch


def header(base_offset: int, count: int, value: bytes = b"v") -> BatchHeader:
    batch = bytearray(encode_batch([Record(0, 1_000, None, value)] * count))
    batch[:8] = base_offset.to_bytes(8, "big")
    return decode_header(batch)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (header(10, 10), False),  # the same
        (header(10, 10, b"w"), True),  # as long, with other rows
        (header(10, 30), True),  # begins as it did, and is longer
        (header(15, 5), True),
        (header(20, 1), False),  # compaction took it; what comes is behind it
    ],
)
def test_another_batch_is_known_by_its_end_or_its_crc(there: BatchHeader, expected: bool) -> None:
    assert is_another(there, 19, header(10, 10).crc) is expected


@pytest.mark.parametrize("by_compaction", [{"record_count": 4}, {"attributes": DELETE_HORIZON_BIT}])
def test_a_batch_that_compaction_has_changed_proves_nothing(by_compaction: dict[str, int]) -> None:
    changed = header(10, 10)._replace(crc=0, **by_compaction)
    assert not is_another(changed, 19, header(10, 10).crc)
