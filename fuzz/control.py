"""Transaction markers."""

from __future__ import annotations

from fuzz.harness import GOLDEN, main, sealed
from semel.record.control import decode_marker


def target(data: bytes) -> None:
    marker = decode_marker(sealed(data))
    assert marker is None or -(2**31) <= marker.coordinator_epoch < 2**31


if __name__ == "__main__":
    main("control", [path.read_bytes() for path in sorted(GOLDEN.glob("java-marker-*.bin"))], target)
