"""What "stored" means, by the offset that comes with it."""

import pytest

from semel.core.sink.landing import Landing, landed
from semel.errors import ErrorCode

NONE, DUPLICATE = ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER


@pytest.mark.parametrize(
    ("code", "base_offset", "landing"),
    [
        (NONE, 120, Landing.APPENDED),
        (NONE, 130, Landing.APPENDED),  # others' rows came between
        (NONE, 119, Landing.DUPLICATE),  # of what this writer has stored itself
        (NONE, 100, Landing.DUPLICATE),
        (NONE, 99, Landing.ELSEWHERE),  # Apache Kafka's answer to sequences of an earlier run
        (NONE, 0, Landing.ELSEWHERE),
        (NONE, -1, Landing.DUPLICATE),
        (DUPLICATE, -1, Landing.DUPLICATE),
        (DUPLICATE, 125, Landing.DUPLICATE),
        (DUPLICATE, 99, Landing.ELSEWHERE),
    ],
)
def test_the_offset_says_what_the_code_does_not(code, base_offset, landing):
    assert landed(code, base_offset, begun_at=100, written_to=120) is landing
