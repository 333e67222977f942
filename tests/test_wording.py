"""Numbers in messages."""

import pytest

from semel.wording import counted, one_line


def test_one_is_no_plural() -> None:
    assert [counted(count, "row") for count in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]
    assert [counted(count, "batch", "batches") for count in (1, 2)] == ["1 batch", "2 batches"]


@pytest.mark.parametrize(
    ("error", "line"),
    [(OSError("two\n  lines"), "two lines"), (ValueError(), "ValueError"), ("no error ", "no error")],
)
def test_an_error_on_one_line(error: object, line: str) -> None:
    assert one_line(error) == line
