"""Codecs: round trips, other writers' framings, damage, and bombs that must not go off."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import tracemalloc
import zlib

import cramjam
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import CorruptRecordBatch
from semel.record import compression as codecs
from semel.record.compression import Compression, compress, decompress

CODECS = [codec for codec in Compression if codec]
MIB = 1024 * 1024


@settings(max_examples=settings().max_examples * 3 // 5)
@given(data=st.binary(max_size=3000), times=st.integers(1, 60), codec=st.sampled_from(Compression))
def test_what_goes_in_comes_out(data: bytes, times: int, codec: Compression) -> None:
    plain = data * times
    assert bytes(decompress(compress(plain, codec), codec)) == plain


@pytest.mark.parametrize("codec", CODECS)
def test_more_than_one_block_of_every_codec(codec: Compression) -> None:
    plain = bytes(range(256)) * 40_000  # 10 MB: three lz4 blocks, hundreds of snappy chunks
    assert bytes(decompress(compress(plain, codec), codec)) == plain


@pytest.mark.parametrize("codec", CODECS)
def test_every_buffer_type_is_taken(codec: Compression) -> None:
    for data in (b"data" * 9, bytearray(b"data" * 9), memoryview(b"data" * 9)):
        packed = compress(data, codec)
        assert bytes(decompress(memoryview(bytearray(packed)), codec)) == b"data" * 9


def test_levels_are_taken() -> None:
    plain = b"level" * 5000
    for codec in (Compression.GZIP, Compression.ZSTD):
        assert bytes(decompress(compress(plain, codec, level=9), codec)) == plain


def test_raw_snappy_is_read() -> None:
    assert (
        bytes(decompress(bytes(cramjam.snappy.compress_raw(b"raw" * 99)), Compression.SNAPPY)) == b"raw" * 99
    )


def test_gzip_members_and_linked_lz4_frames_are_read() -> None:
    assert bytes(decompress(gzip.compress(b"a") + gzip.compress(b"b"), Compression.GZIP)) == b"ab"
    linked = pa.compress(b"linked" * 90_000, "lz4", asbytes=True)
    assert bytes(decompress(linked, Compression.LZ4)) == b"linked" * 90_000


EMPTY_GZIP = gzip.compress(b"", mtime=0)
SKIPPED = bytes.fromhex("502a4d18") + bytes(4)  # a skippable frame of zstd and lz4, without content


class CountingInflate:
    """zlib's own, and how many bytes it was handed, and copied."""

    moved_bytes = 0

    def __init__(self, window_bits: int) -> None:
        self._inflate = ORIGINAL(window_bits)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, length_max: int) -> bytes:
        found = self._inflate.decompress(data, length_max)
        CountingInflate.moved_bytes += len(data) + len(self._inflate.unused_data)
        return found


ORIGINAL = zlib.decompressobj


@pytest.mark.parametrize("last", [b"", bytes(range(256)) * 4000, bytes(3 * MIB)])
def test_many_gzip_members_are_read_in_linear_time(last: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = EMPTY_GZIP * 4000 + gzip.compress(b"a") + gzip.compress(last)
    monkeypatch.setattr(CountingInflate, "moved_bytes", 0)
    monkeypatch.setattr(codecs.zlib, "decompressobj", CountingInflate)
    assert bytes(decompress(packed, Compression.GZIP)) == b"a" + last
    assert CountingInflate.moved_bytes < 60 * len(packed), (
        "a small step for each member, and no copy of the rest"
    )


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        (Compression.GZIP, EMPTY_GZIP * 1_000_000),
        (Compression.SNAPPY, codecs._XERIAL_HEADER + (struct.pack(">i", 1) + b"\0") * 200_000),
    ],
    ids=["gzip", "snappy"],
)
def test_pieces_of_a_stream_are_bounded(codec: Compression, packed: bytes) -> None:
    """20 MB of gzip would be an hour of copying."""
    with pytest.raises(CorruptRecordBatch, match="have more than"):
        decompress(packed, codec)


@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD])
def test_frames_without_content_among_others_are_passed_over(codec: Compression) -> None:
    empty, some = (bytes(compress(data, codec)) for data in (b"", b"some"))
    packed = some + (empty + SKIPPED) * 20_000 + some
    assert bytes(decompress(packed, codec)) == b"somesome"


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_is_refused(codec: Compression) -> None:
    packed = bytes(compress(bytes(range(200)), codec))
    framing_bytes = 16  # snappy's framing has no end mark: its header alone is a whole, empty stream
    for size in range(len(packed)):
        if codec is Compression.SNAPPY and size == framing_bytes:
            continue
        with pytest.raises(CorruptRecordBatch):
            decompress(packed[:size], codec)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_within_the_stated_bound(codec: Compression) -> None:
    bomb = bytes(compress(bytes(200 * MIB), codec))
    pa_before = pa.total_allocated_bytes()
    tracemalloc.start()
    with pytest.raises(CorruptRecordBatch, match="more than 1048576 bytes"):
        decompress(bomb, codec, decompressed_bytes_max=MIB)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 3 * MIB + 16 * MIB
    assert pa.total_allocated_bytes() - pa_before < 3 * MIB


def test_the_bound_itself_is_allowed() -> None:
    for codec in CODECS:
        packed = compress(bytes(MIB), codec)
        assert len(decompress(packed, codec, decompressed_bytes_max=MIB)) == MIB
        with pytest.raises(CorruptRecordBatch):
            decompress(packed, codec, decompressed_bytes_max=MIB - 1)


def test_snappy_is_not_believed_about_its_size() -> None:
    claims = b"\xff\xff\xff\x3f" + b"\x00a"  # 128 MiB - 1 in two bytes
    with pytest.raises(CorruptRecordBatch, match="cannot hold"):
        decompress(claims, Compression.SNAPPY)


@pytest.mark.slow
def test_resident_memory_stays_within_the_bound_for_zstd() -> None:
    """zstd's own tables are in no allocator that Python sees, so a process of its own is weighed."""
    script = (
        "import resource, pyarrow, cramjam\n"
        "from semel.record.compression import Compression, compress, decompress\n"
        "from semel.errors import CorruptRecordBatch\n"
        "bomb = bytes(cramjam.zstd.compress(bytes(64 << 20), 19))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: decompress(bomb, Compression.ZSTD, decompressed_bytes_max=1 << 20)\n"
        "except CorruptRecordBatch: pass\n"
        "else: raise SystemExit('not refused')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < (3 + 16 + 128) * MIB


def test_the_lz4_headers_carry_their_own_hash() -> None:
    for header in (codecs._LZ4_SMALL_HEADER, codecs._LZ4_LARGE_HEADER):
        magic, descriptor, check = struct.unpack("<I2sB", header)
        assert magic == 0x184D2204
        assert check == _xxh32_of_short(descriptor) >> 8 & 0xFF


def _xxh32_of_short(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than four bytes."""
    hashed = 374761393 + len(data)
    for byte in data:
        hashed = (hashed + byte * 374761393) & 0xFFFFFFFF
        hashed = (hashed << 11 | hashed >> 21) * 2654435761 & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 15) * 2246822519 & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 13) * 3266489917 & 0xFFFFFFFF
    return hashed ^ hashed >> 16


def test_codecs_have_kafkas_names() -> None:
    assert [Compression.named(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == list(
        Compression
    )
    with pytest.raises(ValueError, match="one of none, gzip, snappy, lz4, zstd"):
        Compression.named("brotli")
