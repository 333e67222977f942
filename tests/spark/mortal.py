"""A client whose process may die, or pause, at any one of the requests by which it changes something."""

from __future__ import annotations

from collections.abc import Callable

from semel.client.blocking import Cluster

SINK_CHANGES = ("produce", "begin_produce", "init_producer_id", "write_fence")
CHANGES = (*SINK_CHANGES, "create_topics", "add_partitions", "alter_configs", "delete_records")


class Died(BaseException):
    """The process is gone."""


def nothing() -> None:
    pass


def die() -> None:
    raise Died


class MortalCluster(Cluster):
    """Calls a hook around its ``at``-th request of those named in ``changes``."""

    def __init__(
        self,
        bootstrap: str,
        at: int,
        before: Callable[[], None],
        after: Callable[[], None],
        changes: tuple[str, ...] = SINK_CHANGES,
    ) -> None:
        super().__init__(bootstrap)
        self.left, self.before, self.after, self.changes = at, before, after, changes
        self.made: list[str] = []

    def __getattribute__(self, name):
        real = super().__getattribute__(name)
        if name.startswith("_") or name not in super().__getattribute__("changes"):
            return real

        def change(*args, **kwargs):
            self.made.append(name)
            self.left -= 1
            is_at = self.left == -1
            if is_at:
                self.before()
            answer = real(*args, **kwargs)
            if is_at:
                if name == "begin_produce":
                    answer.result()
                self.after()
            return answer

        return change
