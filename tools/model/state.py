"""A stage's fold, its state, the changelog, and the executor's store: pure, for one stage partition."""

from __future__ import annotations

from typing import Any, NamedTuple

from tools.model.config import Config
from tools.model.merge_log import Entry

Pairs = tuple[tuple[str, Any], ...]  # a map, sorted
Message = tuple[Any, ...]  # ("begin" | "snapshot" | "change", entry's offset, pairs)
META, MARKS, TIME = "~meta", "~marks", "~time"
EMPTY: Pairs = ()


class Committed(NamedTuple):
    """What a DECISION says of one writer. ``whole`` is the model's own: the state as it truly was."""

    end: int = 0
    inline: Pairs | None = EMPTY
    changelog_from: int = 0
    digest: Any = None
    born: int = 0
    output_end: int = 0
    changelog_end: int = 0
    changelog_top: int = 0  # no decided message stands at or behind it; undecided ones may stand below
    life_from: int = 0  # of the output
    life: int = 0  # which function
    whole: Pairs = EMPTY


class Run(NamedTuple):
    """What one attempt makes of its entries."""

    state: Pairs
    messages: tuple[tuple[str, Any], ...]  # ("output" | "changelog", content), in order
    digest: Any
    changes: Pairs
    snapshot_begun: bool
    marks: Any


class Store(NamedTuple):
    """An executor's copy of decided state."""

    tag: int
    born: int
    state: Pairs
    read_up_to: int
    pending: tuple[int, int, Any, Pairs] | None = None  # from, to, digest, changes


def paired(state: dict[Any, Any]) -> Pairs:
    """Sorted, so that equal maps are equal values."""
    return tuple(sorted(state.items()))


def run(
    config: Config,
    inputs: tuple[tuple[int, ...], ...],
    base: Pairs,
    entries: tuple[tuple[int, Entry], ...],
    *,
    begin: int,
    end: int,
    version: int = 0,
    life: int = 0,
    left_over: Any = None,
) -> Run:
    """Fold ``entries`` over ``base``. Nothing depends on where a micro-batch begins or ends, if the rules hold."""
    state, changes = dict(base), dict[str, Any]()
    messages: list[tuple[str, Any]] = []
    snapshot_begun = False
    marks = left_over
    pieces = [(offset, _rows(config, inputs, entry, version), entry.tick) for offset, entry in entries]
    if not config.holds("emission per entry") and pieces:
        last, tick = pieces[-1][0], max(tick for _, _, tick in pieces)
        pieces = [(last, [row for _, rows, _ in pieces for row in rows], tick)]
    for number, (offset, rows, tick) in enumerate(pieces):
        changed: dict[str, Any] = {}
        seen = dict(state.get(MARKS, ()) if marks is None else marks)
        for source, place in rows:
            if config.has_lineage:
                lineage, of = inputs[source][place], source if config.holds("marks per source") else 0
                if lineage <= seen.get(of, -1):
                    continue
                seen[of] = lineage
                if config.holds("marks are state"):
                    changed[MARKS] = paired(seen)
                else:
                    marks = paired(seen)
            key = "abc"[place % config.key_count]
            if version == 1 and number == 0 and len(config.changes_of) > 1:
                key = "abc"[(place + 1) % config.key_count]
            row = (source, place, life)
            value = (*changed.get(key, state.get(key, ())), row) if config.keep == "all" else row
            changed[key] = value
            if config.keep == "last":
                messages.append(("output", (offset, row)))
        if config.keep == "all":
            messages += [
                ("output", (offset, key, value)) for key, value in changed.items() if key not in (MARKS, TIME)
            ]
        if tick and (tick > state.get(TIME, 0) or not config.holds("time is recorded")):
            if config.holds("time is recorded"):
                changed[TIME] = tick
            messages.append(("output", (offset, "closed by", tick)))
        is_last = number == len(pieces) - 1
        state |= changed
        for message in _changelog(config, state, changed, offset, is_last):
            messages.append(("changelog", message))
            snapshot_begun |= message[0] == "begin"
        changes |= changed
    digest: Any = paired(changes)
    if config.holds("digest has its ends"):
        digest = (begin, end, digest)
    return Run(paired(state), tuple(messages), digest, paired(changes), snapshot_begun, marks)


def _rows(
    config: Config, inputs: tuple[tuple[int, ...], ...], entry: Entry, version: int
) -> list[tuple[int, int]]:
    numbers = list(range(len(inputs)))
    if version == 1 and not config.holds("order within an entry"):
        numbers.reverse()
    return [
        (number, place)
        for number in numbers
        if (begin := entry.froms[number]) is not None
        for place in range(begin, entry.ends[number])
    ]


def _changelog(
    config: Config, state: dict[str, Any], changed: dict[str, Any], offset: int, is_last: bool
) -> list[Message]:
    """The entry's messages; brings the meta entry of the state, and of what has changed, up to date."""
    if not changed:
        return []
    is_inline, change_count = state.get(META, (True, 0))
    size = sum(len(value) if config.keep == "all" else 1 for key, value in state.items() if key in "abc")
    if is_inline:
        asked = is_last or config.holds("mode per entry")
        if size <= config.inline_max or not asked:
            return []
        is_snapshot = True
    else:
        change_count += len(changed)
        is_snapshot = change_count > config.changes_max
    state[META] = changed[META] = (False, 0 if is_snapshot else change_count)
    if is_snapshot:
        return [("begin", offset), ("snapshot", offset, paired(state))]
    return [("change", offset, paired(changed))]


def is_inline(state: Pairs) -> bool:
    """Whether the state rides in the DECISION."""
    return bool(dict(state).get(META, (True, 0))[0])


# -- the changelog and the store ------------------------------------------------------------------------

Changelog = tuple[int, tuple[Message, ...]]  # log start offset, and the messages from there on


def roll(
    config: Config, state: Pairs, changelog: Changelog, from_offset: int, first_entry: int, decided: Committed
) -> tuple[Pairs, int]:
    """``state`` with the messages of entries from ``first_entry`` up to the decided end, and the first offset that was
    left out."""
    start, messages = changelog
    now = dict(state)
    top = start + len(messages)
    if config.holds("restores end with the decision"):
        top = min(top, decided.changelog_top)
    end, read_up_to = decided.end, max(top, from_offset)
    for offset in range(max(start, from_offset), top):
        kind, entry, *content = messages[offset - start]
        if entry >= end and config.holds("decided messages only"):
            if config.holds("read up to the first undecided"):
                read_up_to = min(read_up_to, offset)
            continue
        if entry < first_entry:
            continue
        if kind == "begin":
            now = {}
        else:
            now.update(content[0])
    return paired(now), read_up_to


def base_of(
    config: Config, decided: Committed, changelog: Changelog, store: Store | None
) -> tuple[Pairs, Store | None] | None:
    """The state that a task starts from, and the store after that; ``None``: the task stops."""
    if decided.inline is not None:
        return decided.inline, store
    if config.has_store and store is not None:
        mine = store.born == decided.born or not config.holds("tags have a birth")
        if mine and store.tag > decided.end and not config.holds("newer tags are rebuilt"):
            return store.state, store
        if mine and store.tag == decided.end:
            return store.state, store
        if mine and store.tag < decided.end:
            if store.pending is not None and _is_decided(config, decided, store):
                state = paired(dict(store.state) | dict(store.pending[3]))
                return state, Store(decided.end, decided.born, state, store.read_up_to)
            if store.read_up_to >= changelog[0] or not config.holds("no roll across a trim"):
                state, read_up_to = roll(config, store.state, changelog, store.read_up_to, store.tag, decided)
                return state, Store(decided.end, decided.born, state, read_up_to, store.pending)
    if changelog[0] > decided.changelog_from and config.holds("a trimmed changelog is refused"):
        return None
    state, read_up_to = roll(config, EMPTY, changelog, decided.changelog_from, 0, decided)
    pending = None if store is None else store.pending
    built = Store(decided.end, decided.born, state, read_up_to, pending) if config.has_store else store
    return state, built


def _is_decided(config: Config, decided: Committed, store: Store) -> bool:
    assert store.pending is not None
    begin, end, digest, _ = store.pending
    if begin != store.tag and config.holds("pending from the tag"):
        return False
    return end == decided.end and (digest == decided.digest or not config.holds("pending by digest"))


def compacted(changelog: Changelog) -> Changelog:
    """What a log cleaner leaves: of each key the newest value."""
    start, messages = changelog
    seen: set[str] = set()
    kept: list[Message] = []
    for message in reversed(messages):
        if message[0] == "begin":
            kept.append(message)
            continue
        kind, offset, pairs = message
        kept.append((kind, offset, tuple((key, value) for key, value in pairs if key not in seen)))
        seen |= {key for key, _ in pairs}
    return start, tuple(kept[::-1])
