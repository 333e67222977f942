"""Who leads each partition, as far as the producer knows, and when to ask about a topic.

One question a topic is open at a time, and the next one waits a little after the answer: a partition without a
leader is asked about again and again, but not in a busy loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from semel.types import TopicPartition


class Leaders:
    """Node ids by partition; what a failed request has made doubtful is forgotten, and asked for anew."""

    __slots__ = ("_ask_not_before_ms", "_asking", "_known", "_pause_ms")

    def __init__(self, pause_ms: int) -> None:
        self._known: dict[TopicPartition, int] = {}
        self._asking: set[str] = set()
        self._ask_not_before_ms: dict[str, int] = {}
        self._pause_ms = pause_ms

    def of(self, tp: TopicPartition) -> int | None:
        return self._known.get(tp)

    def take(self, topics: Set[str], leaders: Mapping[TopicPartition, int], now_ms: int) -> None:
        """What was asked about ``topics`` is answered; a partition that is missing has no leader."""
        self._known.update(leaders)
        self._asking -= topics
        self._ask_not_before_ms.update(dict.fromkeys(topics, now_ms + self._pause_ms))

    def forget(self, tp: TopicPartition) -> None:
        self._known.pop(tp, None)

    def ask_if_due(self, topic: str, now_ms: int) -> bool:
        """Whether a question is to go out now; from then on it is open."""
        due_ms = self.next_question_ms(topic)
        if due_ms is None or now_ms < due_ms:
            return False
        self._asking.add(topic)
        return True

    def next_question_ms(self, topic: str) -> int | None:
        """When ``topic`` may be asked about; None while an answer is due."""
        return None if topic in self._asking else self._ask_not_before_ms.get(topic, 0)
