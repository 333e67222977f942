"""The codes that older clients know something by."""

from __future__ import annotations

import pytest

from semel.errors import ErrorCode
from semel.server.handlers.known_codes import as_known


@pytest.mark.parametrize(
    ("version", "told"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)]
)
def test_who_is_fenced_hears_it_by_the_word_it_knows(version: int, told: ErrorCode) -> None:
    assert as_known(ErrorCode.PRODUCER_FENCED, version, fenced_from=4) is told


@pytest.mark.parametrize(
    ("version", "told"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_a_transaction_that_can_only_be_aborted_is_told_so(version: int, told: ErrorCode) -> None:
    assert as_known(ErrorCode.INVALID_TXN_STATE, version, abortable_from=11) is told


def test_without_a_version_nobody_knows_the_newer_word() -> None:
    assert as_known(ErrorCode.PRODUCER_FENCED, 99) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert as_known(ErrorCode.INVALID_TXN_STATE, 99) is ErrorCode.INVALID_TXN_STATE
    assert as_known(ErrorCode.NONE, 0, fenced_from=1, abortable_from=0) is ErrorCode.NONE
