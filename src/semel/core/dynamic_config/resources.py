"""What was set of brokers and groups while the server ran. A log-backed core (:mod:`semel.core.decision`).

Invariants:
- Only what was set is here; a resource of which nothing is set any more is gone.
- A setting of one broker goes before that of all brokers, which has the name "".
- At most :data:`RESOURCES_MAX` resources have settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from semel.core.decision import Decision, StateRecord
from semel.core.dynamic_config import broker, group
from semel.core.topics import Refused
from semel.errors import ErrorCode

ALL_BROKERS: Final = ""
RESOURCES_MAX: Final = 10_000
_KEY_PREFIX: Final = b"config/"
_VERSION: Final = 1


class Kind(IntEnum):
    """``ConfigResource.Type``, of those that are kept here."""

    BROKER = 4
    GROUP = 32


@dataclass(frozen=True, slots=True)
class AlterResource:
    """Set the given settings; ``None`` puts one back to its default, ``replaces`` all those that are not given."""

    kind: Kind
    name: str
    changes: Mapping[str, str | None]
    replaces: bool = False


class Resources:
    """The settings of every broker and group that has any."""

    def __init__(self) -> None:
        self._settings: dict[tuple[Kind, str], dict[str, str]] = {}

    def get(self, kind: Kind, name: str) -> Mapping[str, str]:
        """What is set, by Kafka's names."""
        return self._settings.get((kind, name), {})

    def names(self, kind: Kind) -> list[str]:
        """Of which there are settings."""
        return sorted(name for one, name in self._settings if one is kind)

    def in_force(
        self, broker_id: int, instead: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    ) -> dict[str, str]:
        """What a broker has instead of what it was started with; with ``instead`` of what these names have set."""
        names = (ALL_BROKERS, str(broker_id))
        of_all, of_one = (instead[name] if name in instead else self.get(Kind.BROKER, name) for name in names)
        return {**of_all, **of_one}

    def decide(self, request: AlterResource, now_ms: int) -> Decision[Mapping[str, str] | Refused]:
        """What becomes of ``request``; the resource's settings as they will be."""
        del now_ms  # no decision about settings depends on the time
        kind, name, changes = request.kind, request.name, request.changes
        known = self.get(kind, name)
        for setting, text in changes.items():
            refused = None if text is None else _refused(kind, name, setting, text)
            if refused is not None:
                return Decision((), refused)
        if not known and len(self._settings) >= RESOURCES_MAX:
            reason = f"{len(self._settings)} brokers and groups have settings already"
            return Decision((), Refused(ErrorCode.POLICY_VIOLATION, reason))
        asked = changes if request.replaces else {**known, **changes}
        settings = {setting: text for setting, text in asked.items() if text is not None}
        records = () if settings == known else (_record(kind, name, settings),)
        return Decision(records, settings)

    def apply(self, record: StateRecord) -> bool:
        if not record.key.startswith(_KEY_PREFIX):
            return False
        number, _, name = record.key[len(_KEY_PREFIX) :].decode().partition("/")
        resource = Kind(int(number)), name
        self._settings.pop(resource, None)
        if record.value is not None:
            self._settings[resource] = json.loads(record.value)["settings"]
        return True

    def live_records(self) -> Iterable[StateRecord]:
        return [_record(kind, name, settings) for (kind, name), settings in sorted(self._settings.items())]


def _refused(kind: Kind, name: str, setting: str, text: str) -> Refused | None:
    if kind is Kind.GROUP:
        reason = group.wrong_with(setting, text)
        return None if reason is None else Refused(ErrorCode.INVALID_CONFIG, reason)
    wrong = broker.wrong_with(setting, text, of_all_brokers=name == ALL_BROKERS)
    return None if wrong is None else Refused(*wrong)


def _record(kind: Kind, name: str, settings: Mapping[str, str]) -> StateRecord:
    key = _KEY_PREFIX + f"{int(kind)}/{name}".encode()
    if not settings:
        return StateRecord(key, None)
    fields = {"v": _VERSION, "settings": dict(sorted(settings.items()))}
    return StateRecord(key, json.dumps(fields, separators=(",", ":")).encode())
