"""Numbers in messages."""

from semel.wording import counted


def test_one_is_no_plural() -> None:
    assert [counted(count, "row") for count in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]
    assert [counted(count, "batch", "batches") for count in (1, 2)] == ["1 batch", "2 batches"]
