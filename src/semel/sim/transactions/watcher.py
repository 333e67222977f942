"""What may be watched of transactions; no hook does anything by itself."""

from __future__ import annotations

from semel.core.transaction.transaction import Transaction
from semel.errors import ErrorCode
from semel.record.control import Marker
from semel.sim.transactions.story import Poll, TransactionStory, Txn
from semel.types import TopicPartition


class TransactionWatcher:
    """What clients and readers are told."""

    def transaction_ended(self, story: TransactionStory, txn: Txn) -> None:
        """Its client was told how."""

    def end_refused(self, story: TransactionStory, txn: Txn, code: ErrorCode) -> None:
        """Its client was told that it cannot end it, for a reason that is neither the moment's nor a newer client."""

    def polled(self, story: TransactionStory, poll: Poll) -> None:
        """A reader was given something, be it nothing; ``story.polls`` does not have it yet."""

    def position_told(
        self, story: TransactionStory, group_id: str, offset: int, note: str | None, sent_ms: int
    ) -> None:
        """A group's committed offset is this one, by the transaction of that name; ``None``: there is none."""

    def transactions_waited(self, waited_ms: int, patience_ms: int, what_is_open: str | None) -> None:
        """A world without faults goes on so long; ``None``: nothing is open, and readers are at the end."""

    def history_ended(self, story: TransactionStory) -> None:
        """All that was read stands in ``story.polls``, and what is there in the end was read once more."""


class TransactionLogWatcher:
    """What the server writes. ``story.log`` does not have it yet."""

    def state_written(
        self,
        story: TransactionStory,
        before: Transaction | None,
        after: Transaction,
        txn: Txn | None,
        now_ms: int,
    ) -> None:
        """A record of a transactional id; ``txn``: the one that its holder has begun last."""

    def marker_written(self, story: TransactionStory, tp: TopicPartition, marker: Marker) -> None:
        """The end of what its producer has written there in a transaction."""

    def found_at_start(
        self, story: TransactionStory, tp: TopicPartition, durable_end: int, log_end_offset: int
    ) -> None:
        """A process came up with a partition that ends there; it was durable up to ``durable_end`` before."""
