"""An error's text: what happened, where the row is, and what to do that helps."""

from __future__ import annotations

import pytest

from semel.client.delivery import Delivery, Promise, error_of
from semel.core.client.fate import InDoubt, Refused, Stored
from semel.errors import CannotKnow, ErrorCode, NotStored
from semel.types import ProducerGrant, TopicPartition

TP = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, "; it is safe to send it again"),
        (ErrorCode.MESSAGE_TOO_LARGE, "; mend that, then it is safe to send it again"),
    ],
)
def test_a_row_that_would_be_refused_again_is_not_told_to_be_sent_as_it_is(
    code: ErrorCode, advice: str
) -> None:
    error = error_of(Refused(code, "why"), "row for out-0")
    assert isinstance(error, NotStored)
    assert str(error) == f"row for out-0 is not stored: why [{code.name}]{advice}"


def test_who_has_no_identity_to_resume_with_is_told_another_way_to_find_out() -> None:
    error = error_of(InDoubt(ErrorCode.REQUEST_TIMED_OUT, "why"), "row for out-0")
    assert isinstance(error, CannotKnow)
    assert "read the topic if it has none" in str(error)


def two_of_one_batch() -> tuple[Promise, Delivery, Delivery]:
    promise = Promise(TP)
    return promise, Delivery(TP, promise, 0, 5), Delivery(TP, promise, 1, 6)


def test_the_rows_of_a_batch_lie_one_behind_the_other() -> None:
    promise, first, second = two_of_one_batch()
    assert not first.done()
    promise.fate.set_result(Stored(ProducerGrant(7, 0), 3, 40, -1))
    assert [(row.result().offset, row.result().sequence) for row in (first, second)] == [(40, 3), (41, 4)]


def test_whoever_was_given_one_rows_error_was_told_of_the_batch() -> None:
    promise, first, _ = two_of_one_batch()
    promise.fate.set_result(Refused(ErrorCode.MESSAGE_TOO_LARGE, "why"))
    assert not promise.told
    with pytest.raises(NotStored):
        first.result()
    assert promise.told
