"""ApiVersions, versions 0 to 4, by hand: the first message of every connection must not wait for an import.

The answer to an unsupported version is version 0 with error 35 and the range of ApiVersions itself, so that a
newer client can step down (KIP-511). Its header is always version 0 (``frames.encode_response_header``).

What semel does beyond Kafka's protocol, or otherwise, stands among the supported features (KIP-584), by which a client
knows what it talks to; which APIs are served says nothing of that. The *finalized* features are what the cluster has
switched on: by the level of ``transaction.version`` a client knows which protocol of transactions it has to speak.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.errors import ErrorCode
from semel.wire.api import SERVED, ApiKey
from semel.wire.frames import INT16, INT32, INT64, Buffer, Reader, write_count, write_string, write_tags

_FLEXIBLE_FROM: Final = 3
_RANGE: Final = struct.Struct(">hhh")
_LEVELS: Final = struct.Struct(">hh")
_SUPPORTED_FEATURES, _FINALIZED_EPOCH, _FINALIZED_FEATURES = 0, 1, 2  # their tags
_FEATURES_EPOCH: Final = 0  # what is finalized here never changes

# A marker shuts out a producer's older epochs in a partition, whoever writes it, and no transaction is needed.
MARKER_FENCE: Final = "semel.marker_fence"
# What a leader tells of is committed: the producers that it knows, and the end of a log behind what it was told to
# write. Apache Kafka's tells of a batch that no other replica has, and a follower tells of producers, too.
COMMITTED_ONLY: Final = "semel.committed_only"
# Clients raise a producer's epoch with each transaction, and let Produce register partitions, where level 2 of it is
# finalized, and by nothing else (KIP-890).
TRANSACTION_VERSION: Final = "transaction.version"
FEATURES: Final = {MARKER_FENCE: (1, 1), COMMITTED_ONLY: (1, 1), TRANSACTION_VERSION: (0, 2)}
FINALIZED: Final = {
    TRANSACTION_VERSION: (2, 2)
}  # maximum and minimum: on the wire they are the other way round


@dataclass(slots=True)
class ApiVersionsResponse:
    """Which versions (both ends inclusive) a broker serves of each API key, and the levels of each feature.

    ``finalized``: of the features that the cluster has switched on, up to which level.
    """

    error_code: int
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    throttle_time_ms: int = 0
    features: dict[str, tuple[int, int]] = field(default_factory=dict)
    finalized: dict[str, int] = field(default_factory=dict)


def decode_request(version: int, body: Buffer) -> tuple[str | None, str | None]:
    """The client's software name and version, which it tells from version 3 on."""
    if version < _FLEXIBLE_FROM:
        return None, None
    reader = Reader(body)
    software = reader.string(flexible=True), reader.string(flexible=True)
    reader.skip_tags()
    return software


def encode_request(version: int, software_name: str, software_version: str) -> bytearray:
    out = bytearray()
    if version >= _FLEXIBLE_FROM:
        write_string(out, software_name, flexible=True)
        write_string(out, software_version, flexible=True)
        out.append(0)
    return out


def encode_response(
    version: int, error_code: ErrorCode, ranges: Mapping[int, tuple[int, int]] | None = None
) -> bytearray:
    flexible = version >= _FLEXIBLE_FROM
    ranges = served_ranges() if ranges is None else ranges
    out = bytearray(INT16.pack(error_code))
    write_count(out, len(ranges), flexible)
    for api_key, (version_min, version_max) in ranges.items():
        out += _RANGE.pack(api_key, version_min, version_max)
        if flexible:
            out.append(0)
    if version >= 1:
        out += INT32.pack(0)
    if flexible:
        write_tags(
            out,
            {
                _SUPPORTED_FEATURES: _encode_features(FEATURES),
                _FINALIZED_EPOCH: INT64.pack(_FEATURES_EPOCH),
                _FINALIZED_FEATURES: _encode_features(FINALIZED),
            },
        )
    return out


def decode_response(version: int, body: Buffer) -> ApiVersionsResponse:
    """Read an answer; one with error 35 is in version 0, whatever was asked."""
    reader = Reader(body)
    error_code = reader.int16()
    if error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    flexible = version >= _FLEXIBLE_FROM
    response = ApiVersionsResponse(error_code)
    for _ in range(reader.count(flexible, item_bytes_min=_RANGE.size)):
        api_key, version_min, version_max = _RANGE.unpack(reader.take(_RANGE.size))
        response.ranges[api_key] = version_min, version_max
        if flexible:
            reader.skip_tags()
    if version >= 1:
        response.throttle_time_ms = reader.int32()
    tags = reader.tags() if flexible else {}
    if (supported := tags.get(_SUPPORTED_FEATURES)) is not None:
        response.features = _decode_features(Reader(supported))
    if (finalized := tags.get(_FINALIZED_FEATURES)) is not None:
        # The other way round than the supported ones: the highest level comes first.
        response.finalized = {name: level for name, (level, _) in _decode_features(Reader(finalized)).items()}
    return response


def _encode_features(features: Mapping[str, tuple[int, int]]) -> bytes:
    out = bytearray()
    write_count(out, len(features), flexible=True)
    for name, levels in features.items():
        write_string(out, name, flexible=True)
        out += _LEVELS.pack(*levels)
        out.append(0)
    return bytes(out)


def _decode_features(reader: Reader) -> dict[str, tuple[int, int]]:
    features = {}
    for _ in range(reader.count(flexible=True, item_bytes_min=_LEVELS.size)):
        name = reader.string(flexible=True)
        level_min, level_max = _LEVELS.unpack(reader.take(_LEVELS.size))
        reader.skip_tags()
        features[name or ""] = level_min, level_max
    return features


def served_ranges() -> dict[int, tuple[int, int]]:
    """What semel's server advertises."""
    return {
        int(api_key): (
            served.version_min if served.advertised_min is None else served.advertised_min,
            served.version_max,
        )
        for api_key, served in SERVED.items()
    }


def refusal() -> bytearray:
    """The answer to a version that is not served."""
    own = SERVED[ApiKey.API_VERSIONS]
    ranges = {int(ApiKey.API_VERSIONS): (own.version_min, own.version_max)}
    return encode_response(0, ErrorCode.UNSUPPORTED_VERSION, ranges)
