"""What a lessee may take for refused: it never reads the log back."""

import pytest

from semel.errors import ErrorCode
from semel.sim.clients.lessee import promise_of_a_refusal
from semel.sim.world.history import Promise

ENDS_A_GRANT = (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH)


@pytest.mark.parametrize("code", ENDS_A_GRANT)
def test_a_copy_may_be_stored_before_its_lease_is_over(code: ErrorCode) -> None:
    assert promise_of_a_refusal(code, maybe_stored=False, is_replayed=True) is Promise.UNKNOWN


@pytest.mark.parametrize("code", ENDS_A_GRANT)
def test_without_copies_the_first_answer_is_the_last_word(code: ErrorCode) -> None:
    assert promise_of_a_refusal(code, maybe_stored=False, is_replayed=False) is Promise.REFUSED


def test_what_the_log_never_takes_is_refused_with_copies_too() -> None:
    code = ErrorCode.MESSAGE_TOO_LARGE
    assert promise_of_a_refusal(code, maybe_stored=False, is_replayed=True) is Promise.REFUSED


@pytest.mark.parametrize("is_replayed", [False, True])
def test_an_earlier_attempt_without_an_answer_leaves_doubt(is_replayed: bool) -> None:
    code = ErrorCode.UNKNOWN_PRODUCER_ID
    assert promise_of_a_refusal(code, maybe_stored=True, is_replayed=is_replayed) is Promise.UNKNOWN
