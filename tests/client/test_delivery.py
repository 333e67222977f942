"""An error's text: what happened, where the row is, and what to do that helps."""

from __future__ import annotations

import pytest

from semel.client.delivery import error_of
from semel.core.client.fate import InDoubt, Refused
from semel.errors import CannotKnow, ErrorCode, NotStored


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
