"""The four codecs of a batch's records, in the framings that Kafka's clients write and read.

=======  ==========================================================================================
gzip     RFC 1952, level 1 unless told (the default level of others is far too slow for a log)
snappy   written in snappy-java's ("xerial") framing as the Java client does; read so, or raw
lz4      frames of independent blocks: the Java client refuses linked ones (``Lz4BlockInputStream``)
zstd     plain frames, level 3 unless told
=======  ==========================================================================================

Bound of :func:`decompress`: at its peak it holds three times ``decompressed_bytes_max`` (a buffer, its copy
while it grows, the newest piece), plus 16 MiB for a codec's tables, plus zstd's window, which zstd itself
limits to 128 MiB, plus 400 bytes for each chunk of snappy's framing. Nothing is allocated on the word of the input
alone: output grows as it is produced, and a size that snappy claims is held against what snappy can reach.

Time is linear in the bytes that go in and come out, however many members, frames or chunks they are cut into. The
members and chunks that Python goes through are bounded.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import Final

import cramjam

from semel.errors import CorruptRecordBatch

DECOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024

Buffer = bytes | bytearray | memoryview


class Compression(IntEnum):
    """Bits 0-2 of a batch's attributes (``CompressionType``)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Compression:
        """The codec of a ``compression.type`` setting; ValueError for an unknown name."""
        try:
            return cls[name.upper()]
        except KeyError:
            known = ", ".join(codec.name.lower() for codec in cls)
            raise ValueError(f"unknown compression {name!r}: one of {known}") from None


def compress(data: Buffer, compression: Compression, *, level: int | None = None) -> Buffer:
    """``data`` in the codec's framing.

    ``level`` is for gzip (1-9, or -1 for zlib's own), lz4 (1-17: its slow compressor) and zstd (-131072-22).
    """
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            deflate = zlib.compressobj(1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
            return deflate.compress(data) + deflate.flush()
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data, level)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, 3 if level is None else level))


def decompress(
    data: Buffer, compression: Compression, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Buffer:
    """The bytes that were compressed; :class:`CorruptRecordBatch` if invalid or more than the bound."""
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _decompress_gzip(data, decompressed_bytes_max)
        case Compression.SNAPPY:
            return _decompress_snappy(data, decompressed_bytes_max)
        case Compression.LZ4 | Compression.ZSTD:
            return _decompress_stream(data, compression, decompressed_bytes_max)


def _bomb(compression: Compression, decompressed_bytes_max: int) -> CorruptRecordBatch:
    return CorruptRecordBatch(
        f"records in {compression.name.lower()} decompress to more than {decompressed_bytes_max} bytes"
    )


# --- gzip ---------------------------------------------------------------------------------------------

_GZIP_WINDOW_BITS: Final = 31  # 15 bits of window, gzip header and trailer
_GZIP_MEMBERS_MAX: Final = 16 * 1024  # writers make one, or one for each 64 KiB
_GZIP_STEP_BYTES: Final = (512, 1024 * 1024)


def _decompress_gzip(data: Buffer, decompressed_bytes_max: int) -> bytes:
    """All members of a stream (RFC 1952, 2.2), in time linear in its size.

    zlib copies what follows a member, so a member is fed in steps: small ones first, for it may be one of many.
    """
    source = memoryview(data)
    pieces: list[bytes] = []
    room = decompressed_bytes_max
    position = members = 0
    while position < len(source):
        members += 1
        if members > _GZIP_MEMBERS_MAX:
            raise CorruptRecordBatch(f"records in gzip have more than {_GZIP_MEMBERS_MAX} members")
        inflate = zlib.decompressobj(_GZIP_WINDOW_BITS)
        step_bytes, step_bytes_max = _GZIP_STEP_BYTES
        while not inflate.eof:
            if position == len(source):
                raise CorruptRecordBatch("records in gzip end in mid-stream")
            step = source[position : position + step_bytes]
            try:
                piece = inflate.decompress(step, room + 1)
            except zlib.error as error:
                raise CorruptRecordBatch(f"records are not valid gzip: {error}") from None
            if len(piece) > room:
                raise _bomb(Compression.GZIP, decompressed_bytes_max)
            room -= len(piece)
            if piece:
                pieces.append(piece)
            position += len(step) - len(inflate.unused_data)
            step_bytes = min(2 * step_bytes, step_bytes_max)
    if not members:
        raise CorruptRecordBatch("records are not valid gzip: empty")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# --- snappy -------------------------------------------------------------------------------------------

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, lowest compatible version
_XERIAL_CHUNK_BYTES: Final = 32 * 1024
_XERIAL_CHUNKS_MAX: Final = DECOMPRESSED_BYTES_MAX // 1024  # of 1 KiB, snappy-java's smallest
_CHUNK_LENGTH: Final = struct.Struct(">i")
_SNAPPY_RATIO_MAX: Final = 64  # one copy element yields at most 64 bytes and takes at least 2


def _compress_snappy(data: Buffer) -> bytes:
    source = memoryview(data)
    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(source), _XERIAL_CHUNK_BYTES):
        chunk = bytes(cramjam.snappy.compress_raw(source[start : start + _XERIAL_CHUNK_BYTES]))
        parts.append(_CHUNK_LENGTH.pack(len(chunk)))
        parts.append(chunk)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, decompressed_bytes_max: int) -> bytearray:
    source = memoryview(data)
    is_framed = bytes(source[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC
    chunks = _xerial_chunks(source) if is_framed else [source]
    sizes: list[int] = []
    total = 0
    for chunk in chunks:
        sizes.append(_snappy_size(chunk))
        total += sizes[-1]
        if total > decompressed_bytes_max:
            raise _bomb(Compression.SNAPPY, decompressed_bytes_max)
    out = bytearray(total)
    window = memoryview(out)
    position = 0
    for chunk, size in zip(chunks, sizes, strict=True):
        try:
            written = cramjam.snappy.decompress_raw_into(chunk, window[position : position + size])
        except cramjam.DecompressionError as error:
            raise CorruptRecordBatch(f"records are not valid snappy: {error}") from None
        if written != size:
            raise CorruptRecordBatch(f"snappy chunk gave {written} bytes, it claimed {size}")
        position += size
    return out


def _xerial_chunks(source: memoryview) -> list[memoryview]:
    position = len(_XERIAL_HEADER)
    if len(source) < position:
        raise CorruptRecordBatch("records in snappy end inside of their framing's header")
    chunks: list[memoryview] = []
    while position < len(source):
        if position + _CHUNK_LENGTH.size > len(source):
            raise CorruptRecordBatch("records in snappy end inside of a chunk's length")
        (length,) = _CHUNK_LENGTH.unpack_from(source, position)
        position += _CHUNK_LENGTH.size
        if not 0 < length <= len(source) - position:
            raise CorruptRecordBatch(f"snappy chunk claims {length} bytes, {len(source) - position} are left")
        if len(chunks) == _XERIAL_CHUNKS_MAX:
            raise CorruptRecordBatch(f"records in snappy have more than {_XERIAL_CHUNKS_MAX} chunks")
        chunks.append(source[position : position + length])
        position += length
    return chunks


def _snappy_size(chunk: memoryview) -> int:
    """The size that a raw snappy block claims: a plain varint of at most 32 bits."""
    size = 0
    for index, byte in enumerate(chunk[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if size > len(chunk) * _SNAPPY_RATIO_MAX:
                raise CorruptRecordBatch(f"{len(chunk)} bytes of snappy cannot hold {size} bytes")
            return size
    raise CorruptRecordBatch("records are not valid snappy: no size")


# --- lz4 ----------------------------------------------------------------------------------------------

# Frame headers: magic, flags (version 1, independent blocks, no checksums, no size), block size, and the
# header's xxHash. Both are constants, so no xxHash is needed here; a test computes them.
_LZ4_SMALL_BLOCK_BYTES: Final = 64 * 1024
_LZ4_LARGE_BLOCK_BYTES: Final = 4 * 1024 * 1024
_LZ4_SMALL_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
_LZ4_LARGE_HEADER: Final = bytes.fromhex("04224d18 60 70 73")
_LZ4_END: Final = bytes(4)
_LZ4_STORED: Final = 0x8000_0000  # in a block's length: not compressed
_LZ4_LENGTH: Final = struct.Struct("<I")


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    source = memoryview(data)
    small = len(source) <= _LZ4_SMALL_BLOCK_BYTES
    block_bytes = _LZ4_SMALL_BLOCK_BYTES if small else _LZ4_LARGE_BLOCK_BYTES
    parts: list[Buffer] = [_LZ4_SMALL_HEADER if small else _LZ4_LARGE_HEADER]
    for start in range(0, len(source), block_bytes):
        block = source[start : start + block_bytes]
        if level is None:
            packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        else:
            slow = cramjam.lz4.compress_block(
                block, mode="high_compression", compression=level, store_size=False
            )
            packed = bytes(slow)
        if len(packed) < len(block):
            parts += (_LZ4_LENGTH.pack(len(packed)), packed)
        else:
            parts += (_LZ4_LENGTH.pack(len(block) | _LZ4_STORED), block)
    parts.append(_LZ4_END)
    return b"".join(parts)


# --- lz4 and zstd -------------------------------------------------------------------------------------

_STREAM_STEP_BYTES_MIN: Final = 64 * 1024


def _decompress_stream(data: Buffer, compression: Compression, decompressed_bytes_max: int) -> bytearray:
    import pyarrow as pa  # here: a server that never looks inside of a batch starts without it

    out = bytearray()
    step_bytes = max(_STREAM_STEP_BYTES_MIN, 4 * len(data))
    codec = compression.name.lower()
    if not data:
        raise CorruptRecordBatch(f"records are not valid {codec}: empty")
    try:
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), codec) as stream:
            while chunk := stream.read(min(step_bytes, decompressed_bytes_max + 1 - len(out))):
                out += chunk
                if len(out) > decompressed_bytes_max:
                    raise _bomb(compression, decompressed_bytes_max)
                step_bytes = max(step_bytes, len(out))
    except (OSError, pa.ArrowException) as error:
        raise CorruptRecordBatch(f"records are not valid {codec}: {error}") from None
    return out
