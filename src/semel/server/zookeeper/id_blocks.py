"""Blocks of producer ids from a counter in ZooKeeper, claimed ahead by a thread.

Invariants:
- The event loop never waits: it takes a block that is ready, or is told that there is none.
- No answer within ``_ANSWER_S``, a connection or session that is lost: in all of these the write may have landed,
  or may land yet. Each is the same *unknown* to :class:`~semel.core.id_counter.Claim`, which reads back. kazoo's
  own retries are not used: a write that it repeats by itself answers for the wrong one of the two.
- No block is claimed before ZooKeeper has said that the servers' leases have one length: the first server writes
  its own beside the counter, and the others must have the same.
- Nothing here belongs to a ZooKeeper session (no ephemeral node, no lock, no watch). So a session that is over
  costs a new one, and no more.
"""

from __future__ import annotations

import logging
import threading
from typing import Final
from uuid import uuid4

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from semel.core.id_counter import Claim, NoBlock, Seen, Step, Write
from semel.core.identity import IdBlock
from semel.core.shared_length import disagreement, encode_length

log = logging.getLogger("semel.zookeeper")

COUNTER_PATH: Final = "/semel/producer_ids"
LENGTH_PATH: Final = "/semel/producer_lease"
_ANSWER_S: Final = 10.0
_AGAIN_S: Final = 1.0  # after a claim that came to nothing
_LOOK_AGAIN_S: Final = 0.05
_AGREED_S: Final = 3.0  # a start waits no longer for a ZooKeeper that is away
_STOP_S: Final = 2.0
# ConnectionClosedError is a SessionExpiredError.
_UNANSWERED: Final = (ConnectionLoss, SessionExpiredError, OperationTimeoutError, KazooTimeoutError)


class ZooKeeperIdBlocks:
    """One server's hold on the counter. Servers share ids if they name the same ZooKeeper and chroot."""

    def __init__(self, connect: str, session_timeout_ms: int, lease_ms: int) -> None:
        """Connects in the background, for as long as it takes."""
        self._name = uuid4().hex  # of this run of this server: its writes are told apart by it
        self._claims = 0
        self._changed = threading.Condition()
        self._floor_id: int | None = None  # set: a block is wanted
        self._ready: IdBlock | None = None
        self._stopping = False
        self._lease_ms = lease_ms
        self._has_asked = False  # for the length of leases
        self._refusal: str | None = None
        hosts, slash, chroot = connect.partition("/")
        self._path = slash + chroot + COUNTER_PATH  # kazoo's own chroot cannot be made through kazoo
        self._length_path = slash + chroot + LENGTH_PATH
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=_AGAIN_S),
            command_retry=KazooRetry(max_tries=0),
            logger=log,
        )
        self._client.start_async()
        self._thread = threading.Thread(target=self._run, name="semel-ids", daemon=True)
        self._thread.start()

    def refusal(self) -> str | None:
        """Why this server must not start. It may start without an answer: then it gives no ids before there is one."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_asked, _AGREED_S)
            return self._refusal

    def claim_ahead(self, floor_id: int) -> None:
        with self._changed:
            if self._ready is None and self._floor_id is None:
                self._floor_id = floor_id
                self._changed.notify_all()

    def take(self, floor_id: int) -> IdBlock | None:
        with self._changed:
            block, self._ready = self._ready, None
        # A block from below the floor would have been claimed before the one that was taken last: never given.
        return block if block is not None and block.first_id >= floor_id else None

    def close(self) -> None:
        """Claim no more. A write that is under way may land: its block is wasted."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(_STOP_S)  # a daemon: if ZooKeeper is silent, the process does not wait for it

    # -- the thread

    def _run(self) -> None:
        refusal = self._agree()
        with self._changed:
            self._has_asked, self._refusal = True, refusal
            self._changed.notify_all()
            if refusal is not None:
                log.error("no producer ids from ZooKeeper: %s", refusal)
                self._changed.wait_for(lambda: self._stopping)
        self._claim_what_is_wanted()
        self._client.stop()
        self._client.close()

    def _agree(self) -> str | None:
        """Why this server's leases and the others' are not of one length, if so; however long the answer takes."""
        while self._is_connected():
            try:
                return self._disagreement()
            except _UNANSWERED:
                continue
            except (NodeExistsError, NoNodeError):
                continue  # another server made it, or somebody deleted it
            except KazooException as error:
                reason = f"{type(error).__name__} {error}".rstrip()
                log.warning("ZooKeeper does not say how long leases are: %s; asking again", reason)
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, _AGAIN_S)
        return None

    def _disagreement(self) -> str | None:
        path = self._length_path
        self._client.sync_async(path).get(timeout=_ANSWER_S)
        if self._client.exists_async(path).get(timeout=_ANSWER_S) is None:
            self._client.ensure_path_async(path.rpartition("/")[0]).get(timeout=_ANSWER_S)
            self._client.create_async(path, encode_length(self._lease_ms)).get(timeout=_ANSWER_S)
        content, _ = self._client.get_async(path).get(timeout=_ANSWER_S)
        return disagreement(content, self._lease_ms, path)

    def _claim_what_is_wanted(self) -> None:
        while (floor_id := self._wanted()) is not None:
            outcome = self._claim(floor_id)
            with self._changed:
                if isinstance(outcome, IdBlock):
                    self._ready, self._floor_id = outcome, None
                    continue
                log.warning("no producer ids from ZooKeeper: %s; asking again", outcome.reason)
                self._changed.wait_for(lambda: self._stopping, _AGAIN_S)

    def _wanted(self) -> int | None:
        """Waits for a claim to be wanted and ZooKeeper to be there; None when this is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._floor_id is not None)
            floor_id = self._floor_id
        return floor_id if self._is_connected() else None

    def _is_connected(self) -> bool:
        """Waits for ZooKeeper to be there, as requests would queue up in kazoo meanwhile; False at the end."""
        with self._changed:
            while not self._stopping and not self._client.connected:
                self._changed.wait(_LOOK_AGAIN_S)  # kazoo's own thread connects
            return not self._stopping

    def _claim(self, floor_id: int) -> IdBlock | NoBlock:
        self._claims += 1
        claim = Claim(f"{self._name}/{self._claims}", floor_id)
        step = claim.begin()
        try:
            while not isinstance(step, IdBlock | NoBlock):
                if isinstance(step, Write):
                    step = self._write(claim, step)
                    continue
                try:
                    step = self._read(claim)
                except _UNANSWERED:  # what was written before is to be read back, however long that takes
                    if not self._is_connected():
                        return NoBlock("the server stops")
        except (KazooException, KazooTimeoutError) as error:
            return NoBlock(f"{type(error).__name__} {error}".rstrip())
        return step

    def _read(self, claim: Claim) -> Step:
        self._client.sync_async(self._path).get(timeout=_ANSWER_S)  # else a follower may answer from the past
        try:
            content, stat = self._client.get_async(self._path).get(timeout=_ANSWER_S)
        except NoNodeError:
            return claim.on_read(None)
        return claim.on_read(Seen(content, stat.version))

    def _write(self, claim: Claim, write: Write) -> Step:
        try:
            if write.node_version is None:
                self._client.ensure_path_async(self._path.rpartition("/")[0]).get(timeout=_ANSWER_S)
                self._client.create_async(self._path, write.content).get(timeout=_ANSWER_S)
            else:
                setting = self._client.set_async(self._path, write.content, write.node_version)
                setting.get(timeout=_ANSWER_S)
        except (BadVersionError, NodeExistsError, NoNodeError):
            return claim.on_conflict()
        except _UNANSWERED:
            return claim.on_unknown()
        return claim.on_written()
