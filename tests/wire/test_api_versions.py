"""ApiVersions: ranges and features, as they are written and read; beside kio, who writes and reads them too."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO

import pytest
from kio.schema.api_versions.v3.response import (
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer

from semel.errors import ErrorCode
from semel.wire import messages
from semel.wire.api import ApiKey
from semel.wire.api_versions import (
    COMMITTED_ONLY,
    FEATURES,
    MARKER_FENCE,
    TRANSACTION_VERSION,
    decode_response,
    encode_response,
    served_ranges,
)


@pytest.mark.parametrize("version", range(5))
def test_what_is_written_is_read(version: int) -> None:
    answer = decode_response(version, encode_response(version, ErrorCode.NONE))
    assert answer.ranges == served_ranges()
    assert answer.features == (FEATURES if version >= 3 else {})


def test_others_read_the_features() -> None:
    answer = messages.decode_response(ApiKey.API_VERSIONS, 3, memoryview(encode_response(3, ErrorCode.NONE)))
    assert {one.name: (one.min_version, one.max_version) for one in answer.supported_features} == {
        MARKER_FENCE: (1, 1),
        COMMITTED_ONLY: (1, 1),
        TRANSACTION_VERSION: (0, 2),
    }
    (finalized,) = answer.finalized_features
    assert finalized.name == TRANSACTION_VERSION
    assert (finalized.min_version_level, finalized.max_version_level) == (2, 2)
    assert answer.finalized_features_epoch == 0, "-1 would say that none are known"


def test_kio_itself_reads_the_features() -> None:
    from kio.serial import entity_reader

    answered = bytes(encode_response(3, ErrorCode.NONE))
    answer, size = entity_reader(ApiVersionsResponse)(answered, 0)
    assert size == len(answered)
    assert {one.name for one in answer.supported_features} == set(FEATURES)
    (finalized,) = answer.finalized_features
    assert (finalized.min_version_level, finalized.max_version_level) == (2, 2)


def test_the_features_of_others_are_read() -> None:
    body = BytesIO()
    feature = SupportedFeatureKey(name="metadata.version", min_version=1, max_version=25)
    finalized = FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=1)
    response = ApiVersionsResponse(
        error_code=KioErrorCode.none,
        api_keys=(),
        throttle_time=timedelta(0),
        supported_features=(feature,),
        finalized_features_epoch=7,
        finalized_features=(finalized,),
    )
    entity_writer(ApiVersionsResponse)(body, response)
    answer = decode_response(3, body.getvalue())
    assert answer.features == {"metadata.version": (1, 25)}
    assert answer.finalized == {TRANSACTION_VERSION: 2}
