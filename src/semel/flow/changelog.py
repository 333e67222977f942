"""Reading a changelog back: the messages of a stage's own writers, as fast as the source reads rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from semel.client.blocking import Cluster
from semel.errors import DataLoss
from semel.record.columnar import decode_table
from semel.spark.reading import read_range
from semel.types import TopicPartition


def read_changelog(
    cluster: Cluster,
    changelog: TopicPartition,
    producer_ids: Collection[int],
    from_offset: int,
    end_offset: int,
    *,
    topic_id: str | None = None,
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Keys and values, in log order. Batches of other producers are passed over without being unpacked.

    Raises :class:`DataLoss` when some of it is gone: without it there is no decided state.
    """
    try:
        for batches in read_range(
            cluster, changelog, from_offset, end_offset, isolation="read_uncommitted", topic_id=topic_id
        ):
            table = decode_table(
                (
                    batch
                    for batch, header in batches
                    if header.producer_id in producer_ids and not header.is_control
                ),
                topic=changelog.topic,
                partition=changelog.partition,
                from_offset=from_offset,
                end_offset=end_offset,
            )
            for block in table.to_batches():
                yield block.column("key"), block.column("value")
    except DataLoss as lost:
        raise DataLoss(
            changelog,
            lost.lost_from,
            lost.lost_to_end,
            "the state of the flow is made of them. Nothing was written now. Put the changelog back from a copy; or "
            "run the flow under another name, which begins with its inputs, and is exact as long as they have all "
            "their rows",
        ) from None
