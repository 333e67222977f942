"""The length of leases that servers share: the same for all, or a refusal that says both."""

from __future__ import annotations

import pytest

from semel.core.shared_length import disagreement, encode_length


def test_the_same_length_is_no_disagreement() -> None:
    assert disagreement(encode_length(5_000), 5_000, "/node") is None


def test_another_length_is_named_with_the_way_out() -> None:
    said = disagreement(encode_length(5_000), 7_000, "/node")
    assert said is not None
    for part in ("producer.lease.ms is 7000 here and 5000", "start with producer.lease.ms=5000", "/node"):
        assert part in said


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"5000",
        b"[]",
        b"\xff",
        b'{"version":1}',
        b'{"version":2,"lease_ms":5000}',
        b'{"version":1,"lease_ms":"5000"}',
        b'{"version":1,"lease_ms":0}',
        b'{"version":1,"lease_ms":true}',
    ],
)
def test_what_is_no_length_is_refused(content: bytes) -> None:
    said = disagreement(content, 5_000, "/node")
    assert said is not None
    assert "/node" in said
