"""``python -m semel.server``: settings, storage, socket; one line when ready; a clean stop on SIGTERM.

Exit codes: 0 stopped as asked, 1 could not start or stop cleanly, 2 a wrong setting.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import ipaddress
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.config import Address, ServerSettings, load_settings, unknown_in
from semel.core.group.groups import OffsetSettings
from semel.core.group.membership import GroupSettings
from semel.core.log.config import LogConfig
from semel.core.log.recovery import Sound
from semel.core.transaction.transactions import TransactionSettings
from semel.errors import ConfigError, StorageError
from semel.server.broker import Broker
from semel.server.closing import close_in_time
from semel.server.limits import cold_files_max, connections_fit, fitted, raise_open_files_max
from semel.server.listener import Listener
from semel.server.logs import configure_logs
from semel.server.storage.id_blocks import IdBlocks
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage

if TYPE_CHECKING:
    from semel.server.zookeeper.id_blocks import ZooKeeperIdBlocks

log = logging.getLogger("semel.server")

_GC_THRESHOLDS: Final = (
    20_000,
    20,
    20,
)  # a request leaves no cycle behind, so that looking for some can wait
_WARM_APIS: Final = ((3, 12), (3, 13), (2, 6), (10, 2), (19, 7))


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse flags, load settings, serve."""
    parser = argparse.ArgumentParser(
        prog="python -m semel.server", description="A log server that speaks Kafka's protocol."
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="default 127.0.0.1:9092; port 0: a free one")
    parser.add_argument("--data-dir", metavar="DIR", help="default ./semel-data")
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings in TOML")
    parser.add_argument("--durability", metavar="fsync|page-cache", help="default fsync")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve Prometheus metrics")
    parser.add_argument("--log-format", metavar="plain|json", help="default plain")
    parser.add_argument("--log-level", metavar="LEVEL", help="default info")
    parser.add_argument("-X", dest="overrides", metavar="NAME=VALUE", action="append", default=[])
    given = vars(parser.parse_args(arguments))
    config_file, overrides = given.pop("config"), given.pop("overrides")
    try:
        settings = load_settings(
            flags=given, overrides=overrides, environment=os.environ, config_file=config_file
        )
    except ConfigError as error:
        print(f"semel: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return run(settings, unknown_in(os.environ))


def run(settings: ServerSettings, warnings: Sequence[str] = ()) -> int:
    """Serve until SIGTERM or SIGINT; ``warnings`` are of the settings, and the first that it logs."""
    configure_logs(settings.log_format, settings.log_level)
    for warning in warnings:
        log.warning("%s", warning)
    open_files_max = raise_open_files_max()
    settings = fitted(settings, open_files_max)
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_serve(settings, open_files_max))
    return uvloop.run(_serve(settings, open_files_max))


async def _serve(settings: ServerSettings, open_files_max: int) -> int:
    shared_ids = _shared_ids(settings)
    try:
        refusal = None if shared_ids is None else shared_ids.refusal()
        if refusal is not None:
            log.error("cannot share producer ids: %s", refusal)
            return 1
        return await _serve_until_stopped(settings, open_files_max, shared_ids)
    finally:
        if shared_ids is not None:
            shared_ids.close()


async def _serve_until_stopped(
    settings: ServerSettings, open_files_max: int, shared_ids: IdBlocks | None
) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        storage = open_storage(settings, open_files_max, shared_ids)
    except (StorageError, OSError) as error:
        log.error("cannot use the data folder: %s", error)
        return 1
    broker = Broker(settings, storage, connections_fit=connections_fit(open_files_max))
    listener = Listener(settings, broker, loop)
    metrics = None
    try:
        address = await listener.start()
    except OSError as error:
        log.error("cannot listen: %s (choose another address with --listen HOST:PORT)", error)
        storage.close(now_ms=listener.wall_clock_ms())
        return 1
    try:
        if settings.metrics is not None:
            from semel.server.metrics import start_metrics

            metrics = await start_metrics(settings.metrics, listener)
    except OSError as error:
        log.error("cannot serve metrics: %s (choose another address with --metrics HOST:PORT)", error)
        await listener.stop()
        storage.close(now_ms=listener.wall_clock_ms())
        return 1
    warn_when_exposed(settings.listen)
    gc.freeze()  # what is there now stays: collections need not look at it again
    gc.set_threshold(*_GC_THRESHOLDS)
    mode = "durable" if settings.durability == "fsync" else "page-cache"
    version = metadata.version("semel")
    ready = f"semel {version} ready on {address}, data in {settings.data_dir} ({mode})"
    print(ready, flush=True)  # noqa: T201 - the one line that tells a caller
    warmer = threading.Thread(target=_import_common_messages, name="semel-warm", daemon=True)
    warmer.start()
    await stop.wait()
    log.info("stopping")
    if metrics is not None:
        metrics.close()
    deadline_s = loop.time() + settings.shutdown_max_ms / 1000
    clean = await listener.stop(deadline_s) and await close_in_time(
        storage, loop, deadline_s, listener.wall_clock_ms()
    )
    log.info("stopped" if clean else "stopped; the next start will check the log")
    return 0 if clean else 1


def _shared_ids(settings: ServerSettings) -> ZooKeeperIdBlocks | None:
    if settings.zookeeper_connect is None:
        return None
    from semel.server.zookeeper.id_blocks import ZooKeeperIdBlocks

    return ZooKeeperIdBlocks(
        settings.zookeeper_connect, settings.zookeeper_session_timeout_ms, settings.producer_lease_ms
    )


def open_storage(
    settings: ServerSettings, open_files_max: int, shared_ids: IdBlocks | None = None
) -> Storage:
    """Open the data folder and tell what recovery did."""
    storage_settings = StorageSettings(
        durable=settings.durability == "fsync",
        broker_id=settings.broker_id,
        default_config=LogConfig(
            segment_bytes=settings.log_segment_bytes,
            segment_ms=settings.log_roll_ms,
            retention_bytes=settings.log_retention_bytes,
            retention_ms=settings.log_retention_ms,
            index_interval_bytes=settings.log_index_interval_bytes,
            max_message_bytes=settings.message_max_bytes,
            message_timestamp_type=settings.log_message_timestamp_type,
            message_timestamp_before_max_ms=settings.log_message_timestamp_before_max_ms,
            message_timestamp_after_max_ms=settings.log_message_timestamp_after_max_ms,
            cleanup_policy=settings.log_cleanup_policy,
            min_cleanable_dirty_ratio=settings.log_cleaner_min_cleanable_ratio,
            min_compaction_lag_ms=settings.log_cleaner_min_compaction_lag_ms,
            max_compaction_lag_ms=settings.log_cleaner_max_compaction_lag_ms,
            delete_retention_ms=settings.log_cleaner_delete_retention_ms,
        ),
        producer_id_expiration_ms=settings.producer_id_expiration_ms,
        partitions_max=settings.partitions_max,
        cold_files_max=cold_files_max(open_files_max),
        producers_max=settings.producers_max,
        producer_lease_ms=settings.producer_lease_ms,
        offsets=OffsetSettings(
            settings.offset_metadata_max_bytes, settings.offsets_retention_minutes * 60_000
        ),
        groups=GroupSettings(
            settings.group_initial_rebalance_delay_ms,
            settings.group_min_session_timeout_ms,
            settings.group_max_session_timeout_ms,
            settings.group_max_size,
        ),
        transactions=TransactionSettings(
            settings.transaction_max_timeout_ms, settings.transactional_id_expiration_ms
        ),
        cleaner_map_bytes=settings.log_cleaner_dedupe_buffer_size,
    )
    storage = Storage.open(
        settings.data_dir,
        settings=storage_settings,
        now_ms=time.time_ns() // 1_000_000,
        id_blocks=shared_ids,
    )
    for report in storage.recovery:
        if not isinstance(report.verdict, Sound):
            log.warning("%s", report)
    if not storage.was_clean and any(report.log_end_offset for report in storage.recovery):
        scanned = sum(report.scanned_bytes for report in storage.recovery)
        cut = sum(report.cut_bytes for report in storage.recovery)
        log.info(
            "recovered %d partitions after an unclean stop: checked %d bytes, cut %d",
            len(storage.recovery),
            scanned,
            cut,
        )
    return storage


def warn_when_exposed(listen: Address) -> None:
    try:
        loopback = ipaddress.ip_address(listen.host).is_loopback
    except ValueError:
        loopback = listen.host == "localhost"
    if not loopback:
        log.warning(
            "listening on %s, beyond this machine, without authentication: "
            "whoever reaches it can read, write and delete",
            listen,
        )


def _import_common_messages() -> None:
    """Import what the first client will need, beside the loop, so that it need not wait for it."""
    from semel.wire.api import ApiKey
    from semel.wire.messages import schema_of

    for api_key, version in _WARM_APIS:
        schema_of(ApiKey(api_key), version, "request")
        schema_of(ApiKey(api_key), version, "response")
