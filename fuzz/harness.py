"""Mutate a corpus with a seed, feed a target, and let only one exception pass.

Invariant of a target: for every input it returns, or raises ``CorruptRecordBatch``, within ``SECONDS_MAX``
and within ``MEMORY_BYTES_MAX`` of address space. Run N of seed S is a function of (S, N) alone.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from crc32c import crc32c

from semel.errors import CorruptRecordBatch

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "record" / "golden"
SECONDS_MAX = 5.0
MEMORY_BYTES_MAX = 4 * 1024**3
INPUT_BYTES_MAX = 64 * 1024

_TELLING_BYTES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0x81, 0xFE, 0xFF)

Target = Callable[[bytes], None]


def golden_batches() -> list[bytes]:
    """The batches of other clients, as a corpus."""
    return [path.read_bytes() for path in sorted(GOLDEN.glob("*.bin"))]


def mutate(source: bytes, corpus: Sequence[bytes], rng: random.Random) -> bytes:
    """One to six small damages of the kinds that parsers die of."""
    data = bytearray(source[:INPUT_BYTES_MAX])
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1) if rng.random() < 0.6 else rng.randrange(min(len(data), 100) + 1)
        size = rng.choice((1, 1, 2, 4, 8, 64))
        match rng.randrange(8):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(data):
                data[at] = rng.choice(_TELLING_BYTES)
            case 2:
                data[at : at + size] = rng.randbytes(size)
            case 3:
                del data[at : at + size]
            case 4:
                data[at:at] = bytes([rng.choice(_TELLING_BYTES)]) * size
            case 5:
                data[at : at + size] = b"\xff" * (size - 1) + b"\x0f"  # a varint near its bound
            case 6:
                other = rng.choice(corpus)
                start = rng.randrange(len(other) + 1)
                data[at:at] = other[start : start + size * 8]
            case _ if rng.random() < 0.2:
                del data[at:]
    return bytes(data[:INPUT_BYTES_MAX])


def sealed(data: bytes) -> bytes:
    """The batch with a true length and CRC, so that damage gets past them."""
    if len(data) < 61:
        return data
    batch = bytearray(data)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[16] = 2
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return bytes(batch)


def main(name: str, corpus: Sequence[bytes], target: Target) -> None:
    """The command line of one target."""
    parser = argparse.ArgumentParser(prog=f"python -m fuzz.{name}")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="start at this run")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    for entry in corpus:
        target(entry)  # the undamaged corpus must pass
    refused = 0
    for run in range(options.first, options.first + options.runs):
        rng = random.Random(options.seed << 32 | run)
        data = mutate(rng.choice(corpus), corpus, rng)
        started = time.perf_counter()
        try:
            target(data)
        except CorruptRecordBatch:
            refused += 1
        except BaseException:
            sys.stderr.write(f"repeat: python -m fuzz.{name} --seed {options.seed} --first {run} --runs 1\n")
            raise
        if (seconds := time.perf_counter() - started) > SECONDS_MAX:
            raise SystemExit(f"run {run} of seed {options.seed} took {seconds:.1f} s")
    accepted = options.runs - refused
    sys.stdout.write(f"{name}: {options.runs} runs, {refused} refused, {accepted} accepted\n")
