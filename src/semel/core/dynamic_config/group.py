"""The settings of a group, Kafka's ``GroupConfig``: checked as Kafka does under its defaults, kept and described.

They are of groups by protocols that semel does not serve (KIP-848, KIP-932, KIP-1071). Members of a classic group say
themselves how they live, within ``group.min.session.timeout.ms`` and ``group.max.session.timeout.ms``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from semel.core.log.described import ConfigType
from semel.core.log.kept import whole

_BY_DURATION: Final = re.compile(
    r"by_duration:[+]?P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d{0,9})?S)?)?", re.I
)


class GroupSetting(NamedTuple):
    """``refusal``: what is wrong with a value, or None."""

    config_type: ConfigType
    default: str
    refusal: Callable[[str], str | None]
    meaning: str


def _offset_reset(text: str) -> str | None:
    if text in ("earliest", "latest") or _BY_DURATION.fullmatch(text):
        return None
    return f"must be earliest, latest or by_duration:PnDTnHnMn.nS, not {text!r}"


def _isolation(text: str) -> str | None:
    choices = ("read_committed", "read_uncommitted")
    return None if text in choices else f"must be {' or '.join(choices)}, not {text!r}"


def _heartbeat(of_what: str) -> GroupSetting:
    return GroupSetting(
        ConfigType.INT, "5000", whole(5_000, 15_000), f"time between two heartbeats {of_what}"
    )


def _session(of_what: str) -> GroupSetting:
    return GroupSetting(
        ConfigType.INT, "45000", whole(45_000, 60_000), f"silence after which a member is gone {of_what}"
    )


_KIP_848: Final = "of group.protocol=consumer: kept; members of classic groups say it themselves"
_SHARE: Final = "of share groups: kept; there are none"
_STREAMS: Final = "of group.protocol=streams: kept; members of classic groups say it themselves"
GROUP_SETTINGS: Final[Mapping[str, GroupSetting]] = {
    "consumer.heartbeat.interval.ms": _heartbeat(_KIP_848),
    "consumer.session.timeout.ms": _session(_KIP_848),
    "share.auto.offset.reset": GroupSetting(
        ConfigType.STRING, "latest", _offset_reset, f"where a partition is begun, {_SHARE}"
    ),
    "share.heartbeat.interval.ms": _heartbeat(_SHARE),
    "share.isolation.level": GroupSetting(
        ConfigType.STRING, "read_uncommitted", _isolation, f"which rows of transactions are read, {_SHARE}"
    ),
    "share.record.lock.duration.ms": GroupSetting(
        ConfigType.INT, "30000", whole(15_000, 60_000), f"how long a member has a record, {_SHARE}"
    ),
    "share.session.timeout.ms": _session(_SHARE),
    "streams.heartbeat.interval.ms": _heartbeat(_STREAMS),
    "streams.num.standby.replicas": GroupSetting(
        ConfigType.INT, "0", whole(0, 2), f"standby tasks of each task, {_STREAMS}"
    ),
    "streams.session.timeout.ms": _session(_STREAMS),
}


def wrong_with(name: str, text: str) -> str | None:
    """Why a group's setting cannot be ``text``; None if it can."""
    setting = GROUP_SETTINGS.get(name)
    if setting is None:
        return f"{name}: unknown group setting"
    reason = setting.refusal(text)
    return None if reason is None else f"{name}: {reason}"
