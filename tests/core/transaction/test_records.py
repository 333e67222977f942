"""The bytes of ``__transaction_state``; that Kafka's own formatter reads them is shown in ``tests/peers``."""

from __future__ import annotations

import struct
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from semel.core.transaction.records import decode_key, decode_value, encode_key, encode_value
from semel.core.transaction.states import TransactionState
from semel.core.transaction.transaction import Transaction
from semel.types import TopicPartition

int64s = st.integers(-1, 2**63 - 1)
transactions = st.builds(
    Transaction,
    st.text(min_size=1, max_size=200),
    int64s,
    st.integers(-1, 2**15 - 1),
    st.integers(1, 2**31 - 1),
    st.sampled_from(TransactionState),
    st.frozensets(
        st.builds(TopicPartition, st.text(min_size=1, max_size=249), st.integers(0, 2**31 - 1)), max_size=200
    ),
    int64s,
    int64s,
    int64s,
    int64s,
    st.integers(0, 2),
)


@given(transactions)
def test_what_was_written_is_read(transaction: Transaction) -> None:
    if transaction.state is TransactionState.EMPTY:  # which has none, and is written without
        transaction = replace(transaction, partitions=frozenset())
    name = decode_key(encode_key(transaction.transactional_id))
    assert name == transaction.transactional_id
    assert decode_value(name, encode_value(transaction)) == transaction


def test_version_0_is_read_as_kafka_wrote_it() -> None:
    """Lengths of four and two bytes, no tags."""
    value = struct.pack(">hqhib", 0, 7, 3, 60_000, 1) + struct.pack(">i", 1)
    value += struct.pack(">h", 1) + b"t" + struct.pack(">iii", 2, 0, 5) + struct.pack(">qq", 20, 10)
    partitions = frozenset({TopicPartition("t", 0), TopicPartition("t", 5)})
    assert decode_value("x", value) == Transaction(
        "x", 7, 3, 60_000, TransactionState.ONGOING, partitions, 20, 10
    )


def test_a_key_of_another_kind_is_nobodys() -> None:
    assert decode_key(b"\0\1x") is None
    assert decode_key(b"") is None
