"""A consumer's settings: what each one bounds or chooses, and which values are refused."""

# ruff: noqa: RUF009 - the table below is made of calls that build dataclass fields
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, TypedDict

from semel.client.cluster import Isolation
from semel.client.settings import check_names, check_types, setting
from semel.core.consumer.assignors import STRATEGIES, are_cooperative
from semel.core.consumer.membership import MembershipSettings
from semel.errors import ConfigError

Reset = Literal["earliest", "latest", "none", "error"]

_ABOVE_0: Final = (
    "request_timeout_ms",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "max_poll_interval_ms",
    "max_poll_records",
    "auto_commit_interval_ms",
    "metadata_max_age_ms",
)
_ISOLATIONS: Final = ("read_committed", "read_uncommitted")
_RESETS: Final = ("earliest", "latest", "none", "error")


class ConsumerChoices(TypedDict, total=False):
    """The settings as keywords, for a caller's type checker and editor."""

    isolation: Isolation
    partition_max_bytes: int
    max_bytes: int
    min_bytes: int
    client_id: str
    request_timeout_ms: int
    security_protocol: str
    isolation_level: Isolation | None
    group_id: str | None
    group_instance_id: str | None
    auto_offset_reset: Reset
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    partition_assignment_strategy: str | Sequence[str]
    metadata_max_age_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Bounds and choices of a consumer. Times in milliseconds, sizes in bytes."""

    isolation: Isolation = setting("read_committed", "`read_committed` or `read_uncommitted`")
    partition_max_bytes: int = setting(1024 * 1024, "rows of one partition in one answer")
    max_bytes: int = setting(50 * 1024 * 1024, "rows in one answer")
    min_bytes: int = setting(1, "how much the server waits for before it answers")
    client_id: str = setting("semel", "the name that the server sees")
    request_timeout_ms: int = setting(30_000, "how long one request may take")
    security_protocol: str = setting("PLAINTEXT", "there is no other yet")
    isolation_level: Isolation | None = setting(None, "the same as `isolation`, by Kafka's name")
    group_id: str | None = setting(None, "the group to read as a member of, and to commit for")
    group_instance_id: str | None = setting(
        None, "a name of its own that a member keeps: with it, a restart within the session is no rebalance"
    )
    auto_offset_reset: Reset = setting(
        "earliest",
        "where to begin in a partition of which the group has committed nothing: `earliest`, `latest`, or `error` "
        "(Kafka's `none`), which tells. An offset that was committed and is gone is always told",
    )
    enable_auto_commit: bool = setting(
        True, "in a group, commit what earlier polls handed out as you poll on"
    )
    auto_commit_interval_ms: int = setting(5_000, "time between two such commits")
    session_timeout_ms: int = setting(45_000, "without a heartbeat for so long, a member is taken for dead")
    heartbeat_interval_ms: int = setting(3_000, "time between two heartbeats, half a session at most")
    max_poll_interval_ms: int = setting(300_000, "without a poll for so long, a member leaves its group")
    max_poll_records: int = setting(500, "rows that one poll gives at most")
    partition_assignment_strategy: str | Sequence[str] = setting(
        "cooperative-sticky",
        "`cooperative-sticky`, `range`, `roundrobin`, `sticky`; or several, the best first",
    )
    metadata_max_age_ms: int = setting(300_000, "time between two looks for new topics and partitions")

    def __post_init__(self) -> None:
        check_types(self, above_0=_ABOVE_0)
        if self.isolation not in _ISOLATIONS or self.isolation_level not in (*_ISOLATIONS, None):
            wrong = self.isolation if self.isolation not in _ISOLATIONS else self.isolation_level
            raise ConfigError(f"isolation_level={wrong!r}: read_committed or read_uncommitted")
        if self.auto_offset_reset not in _RESETS:
            raise ConfigError(f"auto_offset_reset={self.auto_offset_reset!r}: one of {', '.join(_RESETS)}")
        if self.group_instance_id is not None and not self.group_id:
            raise ConfigError("group_instance_id names a member of a group: it needs group_id")
        if self.group_id == "" or self.group_instance_id == "":
            raise ConfigError("group_id and group_instance_id cannot be empty")
        if self.heartbeat_interval_ms * 2 > self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} has to fit into "
                f"session_timeout_ms={self.session_timeout_ms} twice, so that one lost heartbeat ends no session"
            )
        for name in self.strategies:
            if name not in STRATEGIES:
                raise ConfigError(
                    f"partition_assignment_strategy: {name!r} is none; there are {', '.join(sorted(STRATEGIES))}"
                )

    @classmethod
    def of(cls, settings: ConsumerChoices) -> Self:
        """The settings that a caller has chosen by keywords, which nobody has checked."""
        check_names(settings, ConsumerChoices.__optional_keys__)
        return cls(**settings)

    @property
    def strategies(self) -> tuple[str, ...]:
        given = self.partition_assignment_strategy
        names = given.split(",") if isinstance(given, str) else given
        found = tuple(dict.fromkeys(name.strip() for name in names))
        if not found:
            raise ConfigError("partition_assignment_strategy names none")
        return found

    def membership(self) -> MembershipSettings:
        return MembershipSettings(
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            max_poll_interval_ms=self.max_poll_interval_ms,
            group_instance_id=self.group_instance_id,
            is_cooperative=are_cooperative(self.strategies),
        )
