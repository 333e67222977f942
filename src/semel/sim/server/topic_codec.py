"""The topic's ``compression.type``: mostly its producers', in some histories a codec that none of them uses.

There every batch waits in the line of those that are compressed again, while others arrive, are synced and fenced,
and processes end. Not where the log takes small batches only: what a codec adds to a row could make it too large.
"""

from __future__ import annotations

from random import Random
from typing import Final

from semel.sim.server.batch_limit import BatchLimit

OWN_CODEC_CHANCE: Final = 0.35
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")


class TopicCodec:
    """The setting, if the topic has it."""

    def __init__(self, random: Random, batch_limit: BatchLimit) -> None:
        own = random.choice(CODECS) if random.random() < OWN_CODEC_CHANCE else None
        self.compression_type = own if batch_limit.message_bytes_max is None else None

    @property
    def topic_config(self) -> dict[str, str]:
        return {} if self.compression_type is None else {"compression.type": self.compression_type}
