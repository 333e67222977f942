"""Headers, CRCs and runs of batches, as a server and a recovering log read them."""

from __future__ import annotations

import random

from fuzz.harness import golden_batches, main
from semel.errors import CorruptRecordBatch
from semel.record.batch import decode_header, scan_batches, validate_batch


def target(data: bytes) -> None:
    position = random.Random(len(data)).choice((0, 0, 7))
    for read in (decode_header, validate_batch):
        try:
            read(data, position)
        except CorruptRecordBatch:
            continue
    for check_crc in (False, True):
        end = 0
        for batch, header in scan_batches(data, allow_partial_tail=True, check_crc=check_crc):
            assert len(batch) == header.size_bytes >= 61
            end += len(batch)
        assert end <= len(data)
    assert sum(len(batch) for batch, _ in scan_batches(data)) == len(data)


if __name__ == "__main__":
    whole = golden_batches()
    main("batches", [*whole, b"".join(whole[-6:])], target)
