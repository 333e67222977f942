from __future__ import annotations

import logging

import pytest

from semel.errors import ErrorCode
from semel.server import refusals
from semel.wire.api import ApiKey

ANSWER = {
    "error_code": 0,
    "topics": [
        {
            "name": "t",
            "partitions": [
                {"partition_index": 0, "error_code": ErrorCode.NONE},
                {"partition_index": 1, "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER},
            ],
        },
        {"name": "u", "error_code": 3, "partitions": None},
        {"name": None, "error_code": 9999},
    ],
    "groups": [
        {"group_id": "g\n", "error_code": ErrorCode.GROUP_ID_NOT_FOUND},
        {"group_id": "h", "error_code": 27},
    ],
}


def test_what_an_answer_refuses_is_in_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, refusals.log.name):
        refusals.note_answer(ApiKey.METADATA, ANSWER)
        refusals.note(ApiKey.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "t", 3)
    assert caplog.messages == [
        "METADATA of 't', partition 1: NOT_LEADER_OR_FOLLOWER",
        "METADATA of 'u': UNKNOWN_TOPIC_OR_PARTITION",
        "METADATA: UNKNOWN",
        "METADATA of 'g\\n': GROUP_ID_NOT_FOUND",
        "PRODUCE of 't', partition 3: OUT_OF_ORDER_SEQUENCE_NUMBER",
    ]


def test_of_many_the_first_are_told_and_without_a_debug_log_none(caplog: pytest.LogCaptureFixture) -> None:
    many = {"topics": [{"name": f"t{number}", "error_code": 3} for number in range(100)]}
    refusals.note_answer(ApiKey.METADATA, many)
    assert caplog.messages == []
    with caplog.at_level(logging.DEBUG, refusals.log.name):
        refusals.note_answer(ApiKey.METADATA, many)
    assert len(caplog.messages) == 10
