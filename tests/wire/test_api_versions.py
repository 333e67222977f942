"""ApiVersions: ranges and features, as they are written and read; beside kio, who writes and reads them too."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO

import pytest
from kio.schema.api_versions.v3.response import ApiVersionsResponse, SupportedFeatureKey
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer

from semel.errors import ErrorCode
from semel.wire import messages
from semel.wire.api import ApiKey
from semel.wire.api_versions import FEATURES, MARKER_FENCE, decode_response, encode_response, served_ranges


@pytest.mark.parametrize("version", range(5))
def test_what_is_written_is_read(version: int) -> None:
    answer = decode_response(version, encode_response(version, ErrorCode.NONE))
    assert answer.ranges == served_ranges()
    assert answer.features == (FEATURES if version >= 3 else {})


def test_others_read_the_features() -> None:
    answer = messages.decode_response(ApiKey.API_VERSIONS, 3, memoryview(encode_response(3, ErrorCode.NONE)))
    (feature,) = answer.supported_features
    assert (feature.name, feature.min_version, feature.max_version) == (MARKER_FENCE, 1, 1)


def test_the_features_of_others_are_read() -> None:
    body = BytesIO()
    feature = SupportedFeatureKey(name="metadata.version", min_version=1, max_version=25)
    response = ApiVersionsResponse(
        error_code=KioErrorCode.none, api_keys=(), throttle_time=timedelta(0), supported_features=(feature,)
    )
    entity_writer(ApiVersionsResponse)(body, response)
    assert decode_response(3, body.getvalue()).features == {"metadata.version": (1, 25)}
