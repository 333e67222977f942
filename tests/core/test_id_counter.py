"""Claims of blocks from a shared counter: by example, and in any interleaving with whatever can go wrong."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.id_counter import WRITES_MAX, Claim, Counter, NoBlock, Read, Seen, Step, Write
from semel.core.identity import BLOCK_IDS, IdBlock
from semel.types import LEASED_IDS_FROM


def written(next_id: int, by: str = "another") -> bytes:
    return Counter(next_id, by).encode()


def test_the_first_claim_makes_the_node() -> None:
    claim = Claim("a", 0)
    assert claim.begin() == Read()
    assert claim.on_read(None) == Write(written(100, "a/1"), None)
    assert claim.on_written() == IdBlock(0, 100)


def test_a_claim_goes_on_from_the_counter() -> None:
    claim = Claim("a", 0)
    assert claim.on_read(Seen(written(700), 8)) == Write(written(800, "a/1"), 8)
    assert claim.on_written() == IdBlock(700, 800)


def test_a_counter_that_went_back_is_taken_on_to_where_this_server_was() -> None:
    claim = Claim("a", 900)
    assert claim.on_read(Seen(written(700), 3)) == Write(written(1000, "a/1"), 3)
    assert claim.on_written() == IdBlock(900, 1000)


def test_a_lost_race_reads_again() -> None:
    claim = Claim("a", 0)
    claim.on_read(Seen(written(700), 8))
    assert claim.on_conflict() == Read()
    assert claim.on_read(Seen(written(800), 9)) == Write(written(900, "a/2"), 9)


def test_an_unanswered_write_that_the_node_names_has_landed() -> None:
    claim = Claim("a", 0)
    claim.on_read(Seen(written(700), 8))
    assert claim.on_unknown() == Read()
    assert claim.on_read(Seen(written(800, "a/1"), 9)) == IdBlock(700, 800)


def test_an_unanswered_write_that_another_wrote_over_is_wasted() -> None:
    """It may have landed at version 9, or not: nobody can tell."""
    claim = Claim("a", 0)
    claim.on_read(Seen(written(700), 8))
    claim.on_unknown()
    assert claim.on_read(Seen(written(900, "b/1"), 10)) == Write(written(1000, "a/2"), 10)
    assert claim.on_written() == IdBlock(900, 1000)


def test_an_unanswered_write_that_lands_late_is_wasted_and_stops_the_next_one() -> None:
    claim = Claim("a", 0)
    claim.on_read(Seen(written(700), 8))
    claim.on_unknown()
    assert claim.on_read(Seen(written(700), 8)) == Write(written(800, "a/2"), 8)
    claim.on_conflict()  # for the first one came in before
    assert claim.on_read(Seen(written(800, "a/1"), 9)) == Write(written(900, "a/3"), 9)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"{}", b'{"version":2,"next":1,"written_by":"a"}'],
)
def test_a_node_that_is_no_counter_gives_no_block(content: bytes) -> None:
    assert isinstance(Claim("a", 0).on_read(Seen(content, 1)), NoBlock)


@pytest.mark.parametrize("next_id", [-1, "7", True, 1.5, LEASED_IDS_FROM - 99])
def test_a_counter_out_of_range_gives_no_block(next_id: int) -> None:
    assert isinstance(Claim("a", 0).on_read(Seen(written(next_id), 1)), NoBlock)


def test_a_claim_ends() -> None:
    claim = Claim("a", 0)
    for version in range(WRITES_MAX):
        assert isinstance(claim.on_read(Seen(written(100 * version), version)), Write)
        claim.on_conflict()
    assert isinstance(claim.on_read(Seen(written(9000), 90)), NoBlock)


@dataclass
class Node:
    """A counter in ZooKeeper: writes land at their version or not at all."""

    content: bytes | None = None
    node_version: int = -1
    kept: list[tuple[bytes | None, int]] = field(default_factory=list)  # what a restored one may be

    def write(self, write: Write) -> bool:
        if (None if self.content is None else self.node_version) != write.node_version:
            return False
        self.kept.append((self.content, self.node_version))
        self.content, self.node_version = write.content, self.node_version + 1
        return True


@dataclass
class Server:
    """One server with its claim, its log (the floor), and its writes that are under way without an answer."""

    name: str
    floor_id: int = 0
    claims: int = 0
    claim: Claim | None = None
    step: Step | None = None
    under_way: list[Write] = field(default_factory=list)
    blocks: list[IdBlock] = field(default_factory=list)

    def go_on(self, node: Node, what: str) -> None:
        if self.claim is None:
            self.claims += 1
            self.claim = Claim(f"{self.name}/{self.claims}", self.floor_id)
            self.step = self.claim.begin()
        elif isinstance(self.step, Read):
            self.step = self.claim.on_read(
                None if node.content is None else Seen(node.content, node.node_version)
            )
        elif isinstance(self.step, Write):
            self.step = self._write(self.claim, node, self.step, what)
        if isinstance(self.step, IdBlock):
            self.blocks.append(self.step)
            self.floor_id = self.step.end_id  # its log has it before the first id is used
        if isinstance(self.step, IdBlock | NoBlock):
            self.claim = self.step = None

    def _write(self, claim: Claim, node: Node, write: Write, what: str) -> Step:
        if what == "late":
            self.under_way.append(write)
            return claim.on_unknown()
        if what == "lost":
            return claim.on_unknown()
        landed = node.write(write)
        if what == "answer lost":
            return claim.on_unknown()
        return claim.on_written() if landed else claim.on_conflict()

    def crash(self) -> None:
        self.claim = self.step = None


FAULTS = ["go on", "late", "lost", "answer lost", "crash", "land"]
STEPS = st.tuples(st.integers(0, 2), st.sampled_from([*["go on"] * 6, *FAULTS]))


def play(steps: list[tuple[int, str]]) -> list[Server]:
    node, servers = Node(), [Server("a"), Server("b", floor_id=250), Server("c")]
    for number, what in steps:
        server = servers[number]
        if what == "crash":
            server.crash()
        elif what == "land" and server.under_way:
            node.write(server.under_way.pop())
        elif what == "restore" and node.kept:
            node.content, node.node_version = node.kept[len(node.kept) // 2]
        else:
            server.go_on(node, what)
    return servers


def has_no_id_twice(blocks: list[IdBlock]) -> bool:
    assert all(block.end_id - block.first_id == BLOCK_IDS for block in blocks)
    ordered = sorted(blocks, key=lambda block: block.first_id)
    return all(one.end_id <= two.first_id for one, two in itertools.pairwise(ordered))


@given(st.lists(STEPS, min_size=80, max_size=160))
def test_no_id_twice(steps: list[tuple[int, str]]) -> None:
    """Whatever interleaves, is lost, lands late or crashes."""
    assert has_no_id_twice([block for server in play(steps) for block in server.blocks])


@given(st.lists(st.one_of(*[STEPS] * 9, st.just((0, "restore"))), min_size=80, max_size=160))
def test_no_server_gives_an_id_twice_after_the_counter_was_restored(steps: list[tuple[int, str]]) -> None:
    for server in play(steps):
        assert has_no_id_twice(server.blocks)
        assert server.blocks == sorted(server.blocks, key=lambda block: block.first_id), "and they rise"


@given(st.lists(STEPS, min_size=20, max_size=60))
def test_a_server_left_alone_gets_its_block(steps: list[tuple[int, str]]) -> None:
    steps = [*steps, *[(0, "crash"), *[(0, "go on")] * 4]]
    before = len(play(steps[:-4])[0].blocks)
    assert len(play(steps)[0].blocks) > before
