"""A producer's settings: what each one bounds or chooses, and which values are refused."""

# ruff: noqa: RUF009 - the table below is made of calls that build dataclass fields
from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, Final, ParamSpec, Self, TypedDict, TypeVar

from semel.client.identity import IdentityFile, IdentityStore, IdentityValue
from semel.core.client.saved import SavedIdentity
from semel.core.client.settings import PipelineSettings
from semel.core.client.transaction import TransactionSettings
from semel.errors import ConfigError
from semel.record.compression import Compression

_P = ParamSpec("_P")
_T = TypeVar("_T")

_ABOVE_0: Final = (
    "batch_bytes",
    "buffer_bytes",
    "delivery_timeout_ms",
    "request_timeout_ms",
    "metadata_max_age_ms",
    "transaction_timeout_ms",
)


class ProducerChoices(TypedDict, total=False):
    """The settings as keywords, for a caller's type checker and editor."""

    identity: str | SavedIdentity | None
    identity_store: str | os.PathLike[str] | IdentityStore | None
    lease: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    compression: str
    linger_ms: int
    batch_bytes: int
    in_flight_max: int
    buffer_bytes: int
    max_block_ms: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    save_interval_ms: int
    compare_rows: bool
    metadata_max_age_ms: int
    client_id: str
    acks: str | int
    security_protocol: str


def check_types(settings: Any, *, above_0: Collection[str]) -> None:
    """Settings come from files and environments too, where ``lease="no"`` would be as good as True.

    Those of ``above_0`` are 1 at least, the other whole numbers 0.
    """
    for item in fields(settings):
        value, name = getattr(settings, item.name), item.name
        if type(item.default) is bool and type(value) is not bool:
            raise ConfigError(f"{name}={value!r}: True or False")
        if type(item.default) is int:
            least = 1 if name in above_0 else 0
            if type(value) is not int or value < least:
                raise ConfigError(f"{name}={value!r}: a whole number, {least} or above")


def check_names(settings: Mapping[str, object], known: Collection[str], what: str = "setting") -> None:
    """Refuse a keyword that is no setting, and say which one was meant."""
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise ConfigError(f"{name} is no {what}: {meant}")


def names_checked(
    *choices: Collection[str], what: str = "setting"
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Have a function refuse unknown keywords by :func:`check_names`, also where one that it needs is missing.

    Python's own TypeError does not say which one was meant. ``choices``: the keywords that it takes as ``**settings``.
    """

    def checked(function: Callable[_P, _T]) -> Callable[_P, _T]:
        parameters = signature(function).parameters.values()
        known = {item.name for item in parameters if item.kind is not item.VAR_KEYWORD} - {"self"}
        known.update(*choices)

        @wraps(function)
        def checks(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            check_names(kwargs, known, what)
            return function(*args, **kwargs)

        return checks

    return checked


def setting(default: Any, meaning: str) -> Any:
    """A field of a table of settings: its default, and what it means, for the reference."""
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Bounds and choices of a producer. Times in milliseconds, sizes in bytes."""

    identity: str | SavedIdentity | None = setting(
        None, "an identity that the caller keeps, as a value; or the name of the one in `identity_store`"
    )
    identity_store: str | os.PathLike[str] | IdentityStore | None = setting(
        None, "where the identity is kept, so that a later run goes on with it: a file, or another place"
    )
    lease: bool = setting(
        False, "write under ids that are leased anew in time; not together with an identity, and semel only"
    )
    transactional_id: str | None = setting(
        None,
        "send in transactions only, under this name: a copy that is started with the same one shuts the older out, and "
        "aborts what it had open",
    )
    transaction_timeout_ms: int = setting(
        60_000, "after so long its coordinator aborts a transaction that is open; the brokers bound it"
    )
    compression: str = setting("none", "`none`, `gzip`, `snappy`, `lz4` or `zstd`")
    linger_ms: int = setting(5, "how long a batch waits for more rows")
    batch_bytes: int = setting(262_144, "size at which a batch waits no longer, before compression")
    in_flight_max: int = setting(5, "batches of a partition that are on their way at once, 1 to 5")
    buffer_bytes: int = setting(64 * 1024 * 1024, "rows that are not acknowledged yet, in all")
    max_block_ms: int = setting(
        60_000, "how long `send()` waits for room in the buffer, and a transaction for its coordinator"
    )
    delivery_timeout_ms: int = setting(
        120_000, "time after `send()` at which a row without an answer is given up, as not stored or in doubt"
    )
    request_timeout_ms: int = setting(30_000, "how long one request may take")
    retry_backoff_ms: int = setting(50, "pause before a batch goes again; doubled each time, up to 1 s")
    save_interval_ms: int = setting(1_000, "time between two saves of the position while rows are sent")
    compare_rows: bool = setting(
        True,
        "hold rows that are stored, and come again on a resume, against the stored ones; off for rows that are made "
        "anew with other contents each time (a time, a random id): then they are told by their number alone",
    )
    metadata_max_age_ms: int = setting(300_000, "time between two looks for new partitions")
    client_id: str = setting("semel", "the name that the server sees")
    acks: str | int = setting("all", "nothing less is exactly once")
    security_protocol: str = setting("PLAINTEXT", "there is no other yet")

    def __post_init__(self) -> None:
        check_types(self, above_0=_ABOVE_0)
        if str(self.acks) not in ("all", "-1"):
            raise ConfigError(f"acks={self.acks!r}: an idempotent producer needs acks='all'")
        if not 1 <= self.in_flight_max <= 5:
            raise ConfigError(f"in_flight_max={self.in_flight_max}: the log remembers 5 batches, so 1 to 5")
        if self.compression.upper() not in Compression.__members__:
            names = ", ".join(name.lower() for name in Compression.__members__)
            raise ConfigError(f"compression={self.compression!r}: one of {names}")
        if isinstance(self.identity, str) and self.identity_store is None:
            raise ConfigError("identity needs identity_store, the file that the identity is saved in")
        if isinstance(self.identity, SavedIdentity) and self.identity_store is not None:
            raise ConfigError("identity is a value: it is kept by the caller, not in an identity_store")
        if self.lease and (self.identity is not None or self.identity_store is not None):
            raise ConfigError("lease=True gives an id that ends; an identity is one that is kept. Choose one")
        if self.transactional_id is not None:
            self._check_transactional()

    def _check_transactional(self) -> None:
        if not isinstance(self.transactional_id, str) or not self.transactional_id:
            raise ConfigError(f"transactional_id={self.transactional_id!r}: a name")
        if self.lease or self.identity is not None or self.identity_store is not None:
            raise ConfigError(
                "transactional_id, an identity and lease=True are three ways to be exactly once: choose one. In "
                "transactions, the position in the input is an offset that is committed with the rows"
            )

    @classmethod
    def of(cls, settings: ProducerChoices) -> Self:
        """The settings that a caller has chosen by keywords, which nobody has checked."""
        check_names(settings, ProducerChoices.__optional_keys__)
        return cls(**settings)

    def pipeline(self) -> PipelineSettings:
        return PipelineSettings(
            batch_bytes=self.batch_bytes,
            linger_ms=self.linger_ms,
            compression=Compression[self.compression.upper()],
            in_flight_max=self.in_flight_max,
            request_bytes_max=max(1_048_576, self.batch_bytes),
            delivery_timeout_ms=self.delivery_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            strict=self.transactional_id is not None
            or self.identity is not None
            or self.identity_store is not None,
            lease=self.lease,
            transactions=None
            if self.transactional_id is None
            else TransactionSettings(
                self.transaction_timeout_ms,
                self.max_block_ms,
                self.retry_backoff_ms,
            ),
        )

    def store(self) -> IdentityStore | None:
        """Where the identity is kept; None without one."""
        if isinstance(self.identity, SavedIdentity):
            return IdentityValue(self.identity)
        if isinstance(self.identity_store, str | os.PathLike):
            return IdentityFile(self.identity_store)
        return self.identity_store
