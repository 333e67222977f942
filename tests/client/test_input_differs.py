"""An identity that is used again with other input, or for another topic, stops before it drops or sends a row."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

import semel
from semel import aio
from semel.client.identity import IdentityFile
from semel.core.client.saved import SavedIdentity
from semel.errors import CannotKnow, InputDiffers, NotStored
from semel.types import TopicPartition

MONDAY = ["mon-1", "mon-2", "mon-3"]
TUESDAY = ["tue-1", "tue-2", "tue-3", "tue-4"]


def load(bootstrap: str, identity: Path, rows: list[str], topic: str = "days", **settings) -> tuple[int, int]:
    """Rows skipped, and rows dropped."""
    with semel.Producer(bootstrap, identity_store=identity, **settings) as producer:
        for position, row in producer.resume(rows):
            producer.send(topic, row, position=position)
        producer.flush()
        return producer.rows_skipped, producer.rows_dropped


def stored_rows(bootstrap: str, topic: str = "days", partitions: int = 1) -> list[str]:
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        rows: list[str] = []
        while records := consumer.poll(0.3, max_records=100_000):
            rows += [(record.value or b"").decode() for record in records]
        return rows


def crash_before_the_save(bootstrap: str, identity: Path, rows: list[str], saved_rows: int = 0) -> None:
    """Leave ``rows`` stored, and a file that knows of the first ``saved_rows`` of them only."""
    with semel.Producer(bootstrap, identity_store=identity, save_interval_ms=10**9) as producer:
        kept = None
        for position, row in producer.resume(rows):
            if position == saved_rows and saved_rows:
                producer.flush()
                kept = identity.read_bytes()
            producer.send("days", row, position=position).result(10)
            if kept is None:
                kept = identity.read_bytes()
    assert kept is not None
    identity.write_bytes(kept)


# -- behind the saved position nothing is stored ---------------------------------------------------------


def test_other_rows_are_refused_before_one_is_dropped_or_sent(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    load(semel_server.bootstrap, tmp_path / "id", MONDAY)
    before = (tmp_path / "id").read_bytes()
    with pytest.raises(InputDiffers, match=r"row 0 .* is not the one that is stored") as refused:
        load(semel_server.bootstrap, tmp_path / "id", TUESDAY)
    assert "nothing of this input was sent" in str(refused.value)
    assert "wants an identity of its own" in str(refused.value)
    assert stored_rows(semel_server.bootstrap) == MONDAY
    saved, again = IdentityFile(tmp_path / "id").read(), load(semel_server.bootstrap, tmp_path / "id", MONDAY)
    assert saved is not None and saved.position == 2 and before
    assert again == (3, 0)


def test_another_topic_is_refused_before_it_is_begun(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    load(semel_server.bootstrap, tmp_path / "id", MONDAY)
    for rows in (MONDAY, [*MONDAY, "mon-4"]):
        with pytest.raises(InputDiffers, match="went to topic 'days', and comes for topic 'other'"):
            load(semel_server.bootstrap, tmp_path / "id", rows, topic="other")
    with semel.Admin(semel_server.bootstrap) as admin:
        assert admin.list_topics() == ["days"]


def test_an_input_that_grew_goes_on_and_says_what_it_skipped(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    rows = [f"row-{number}" for number in range(100)]
    assert load(semel_server.bootstrap, tmp_path / "id", rows[:40]) == (0, 0)
    assert load(semel_server.bootstrap, tmp_path / "id", rows) == (40, 0)
    assert load(semel_server.bootstrap, tmp_path / "id", rows) == (100, 0)
    assert stored_rows(semel_server.bootstrap) == rows


def test_only_the_last_rows_are_made_again(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    rows = [f"row-{number}" for number in range(1_000)]
    load(semel_server.bootstrap, tmp_path / "id", rows)
    with semel.Producer(semel_server.bootstrap, identity_store=tmp_path / "id") as producer:
        given = list(producer.resume(iter(rows)))  # the caller may read ahead of what it sends
        for position, row in given:
            producer.send("days", row, position=position)
    assert 1 <= len(given) <= 16
    assert given[-1] == (999, "row-999")


def test_rows_that_the_caller_sends_no_more_are_missed(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    """Another filter in the caller's loop is another input."""

    def run(wanted: str) -> None:
        with semel.Producer(semel_server.bootstrap, identity_store=tmp_path / "id") as producer:
            for position, row in producer.resume([*"abcabc"]):
                if row in wanted:
                    producer.send("days", row, position=position)

    run("ab")
    run("ab")
    for wanted in ("", "a", "abc"):
        with pytest.raises(InputDiffers):
            run(wanted)
    assert stored_rows(semel_server.bootstrap) == [*"abab"]


@pytest.mark.parametrize("difference", ["key", "value", "header", "partition", "order"])
def test_a_row_differs_by_anything_that_is_stored_of_it(
    semel_server: semel.LocalLog, tmp_path: Path, difference: str
) -> None:
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("days", 2)

    def run(is_other: bool) -> None:
        with semel.Producer(semel_server.bootstrap, identity_store=tmp_path / "id") as producer:
            for position, number in producer.resume([1, 0] if is_other and difference == "order" else [0, 1]):
                other = is_other and position == 0
                producer.send(
                    "days",
                    key="b" if other and difference == "key" else "a",
                    value="b" if other and difference == "value" else f"a{number}",
                    headers=[("h", b"b" if other and difference == "header" else None)],
                    partition=1 if other and difference == "partition" else 0,
                    position=position,
                )

    run(is_other=False)
    run(is_other=False)
    with pytest.raises(InputDiffers):
        run(is_other=True)
    assert len(stored_rows(semel_server.bootstrap, partitions=2)) == 2


def test_a_function_that_gives_the_row_at_the_position_once_more_has_it_compared(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    def run(values: dict[str, str]) -> None:
        with semel.Producer(semel_server.bootstrap, identity_store=tmp_path / "id") as producer:

            def rows(at: str | None) -> list[tuple[str, str]]:
                return [(name, values[name]) for name in sorted(values) if at is None or name >= at]

            for position, row in producer.resume(rows):
                producer.send("days", row, position=position)

    run({"a": "1", "b": "2"})
    run({"a": "1", "b": "2", "c": "3"})
    with pytest.raises(InputDiffers, match="'c'"):
        run({"a": "1", "b": "2", "c": "4", "d": "5"})
    assert stored_rows(semel_server.bootstrap) == ["1", "2", "3"]


def test_a_position_with_more_or_fewer_rows_than_before_is_other_input(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    def run(copies: int) -> None:
        with semel.Producer(semel_server.bootstrap, identity_store=tmp_path / "id") as producer:
            for position, row in producer.resume(["a", "b", "c"][: 2 if copies == 2 else 3]):
                for _ in range(copies):
                    producer.send("days", row, position=position)

    run(2)
    for copies in (1, 3):
        with pytest.raises(InputDiffers):
            run(copies)
    assert stored_rows(semel_server.bootstrap) == ["a", "a", "b", "b"]


def test_tables_are_compared_however_they_are_cut(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("days", 3)

    def run(tables: list[list[str]], **settings) -> int:
        with semel.Producer(semel_server.bootstrap, identity_store=tmp_path / "id", **settings) as producer:
            for position, values in producer.resume(tables):
                table = pa.table({"value": pa.array(values), "key": pa.array(values)})
                producer.send_table("days", table, position=position)
            producer.flush()
            return producer.rows_skipped

    first, second = [str(n) for n in range(5_000)], [str(n) for n in range(5_000, 9_000)]
    assert run([first]) == 0
    assert run([first, second], buffer_bytes=30_000) == 1
    with pytest.raises(InputDiffers):
        run([first, second[::-1]], buffer_bytes=20_000)
    assert sorted(stored_rows(semel_server.bootstrap, partitions=3)) == sorted(first + second)


def test_the_async_producer_compares_too(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    async def run(rows: list[str]) -> int:
        async with aio.Producer(semel_server.bootstrap, identity_store=tmp_path / "id") as producer:
            for position, row in producer.resume(rows):
                await producer.send("days", row, position=position)
            await producer.flush()
            return producer.rows_skipped

    assert asyncio.run(run(MONDAY)) == 0
    with pytest.raises(InputDiffers):
        asyncio.run(run(TUESDAY))
    assert asyncio.run(run([*MONDAY, "mon-4"])) == 3


def test_rows_that_are_made_anew_each_time_can_be_told_by_their_number(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    load(semel_server.bootstrap, tmp_path / "id", ["loaded at 1", "loaded at 1"])
    again = ["loaded at 2", "loaded at 2", "loaded at 2"]
    with pytest.raises(InputDiffers, match="compare_rows=False"):
        load(semel_server.bootstrap, tmp_path / "id", again)
    assert load(semel_server.bootstrap, tmp_path / "id", again, compare_rows=False) == (2, 0)
    assert stored_rows(semel_server.bootstrap) == ["loaded at 1", "loaded at 1", "loaded at 2"]


@pytest.mark.parametrize("is_saved", [True, False], ids=["up to the position", "behind it"])
def test_rows_that_are_told_by_number_are_refused_for_another_topic(
    semel_server: semel.LocalLog, tmp_path: Path, is_saved: bool
) -> None:
    if is_saved:
        load(semel_server.bootstrap, tmp_path / "id", MONDAY)
    else:
        crash_before_the_save(semel_server.bootstrap, tmp_path / "id", MONDAY)
    with pytest.raises(InputDiffers, match=r"topic 'days', and .* for topic 'other'") as refused:
        load(semel_server.bootstrap, tmp_path / "id", TUESDAY, "other", compare_rows=False)
    assert "compare_rows" not in str(refused.value)
    assert load(semel_server.bootstrap, tmp_path / "id", TUESDAY, compare_rows=False)[0] == 3
    assert stored_rows(semel_server.bootstrap) == [*MONDAY, "tue-4"]


# -- rows are stored behind the saved position -----------------------------------------------------------


@pytest.mark.parametrize("saved_rows", [0, 2])
def test_rows_that_are_to_be_dropped_are_held_against_the_log(
    semel_server: semel.LocalLog, tmp_path: Path, saved_rows: int
) -> None:
    rows = [f"row-{number}" for number in range(6)]
    crash_before_the_save(semel_server.bootstrap, tmp_path / "id", rows[:5], saved_rows)
    other = [*rows[:3], "another", *rows[4:]]
    with pytest.raises(InputDiffers, match="row 1 of the 3" if saved_rows else "row 3 of the 5"):
        load(semel_server.bootstrap, tmp_path / "id", other)
    assert stored_rows(semel_server.bootstrap) == rows[:5]
    assert load(semel_server.bootstrap, tmp_path / "id", rows) == (5, 5 - saved_rows)
    assert stored_rows(semel_server.bootstrap) == rows


def test_rows_are_compared_with_what_several_runs_stored(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    """Two crashes before a save: the rows to be dropped are of two epochs."""
    identity, rows = tmp_path / "id", [f"row-{number}" for number in range(9)]
    crash_before_the_save(semel_server.bootstrap, identity, rows[:3])
    with semel.Producer(semel_server.bootstrap, identity_store=identity, save_interval_ms=10**9) as producer:
        kept = identity.read_bytes()
        for position, row in producer.resume(rows[:6]):
            producer.send("days", row, position=position).result(10)
        assert identity.read_bytes() == kept
    identity.write_bytes(kept)
    with pytest.raises(InputDiffers):
        load(semel_server.bootstrap, identity, [*rows[:4], "another", *rows[5:]])
    assert load(semel_server.bootstrap, identity, rows) == (6, 6)
    assert stored_rows(semel_server.bootstrap) == rows


def test_rows_of_a_table_that_are_to_be_dropped_are_held_against_the_log(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    identity, values = tmp_path / "id", [str(n) for n in range(500)]

    def run(values: list[str]) -> int:
        with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
            kept.append(identity.read_bytes())
            for position, given in producer.resume([values]):
                table = pa.table(
                    {"value": pa.array(given), "headers": pa.array([[("h", b"1")]] * len(given), HEADERS)}
                )
                delivery = producer.send_table("days", table, position=position)
                kept.append(identity.read_bytes())
                delivery.result(10)
            producer.flush()
            return producer.rows_dropped

    HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    kept: list[bytes] = []
    run(values)
    identity.write_bytes(kept[1])
    with pytest.raises(InputDiffers):
        run([*values[:250], "another", *values[251:]])
    assert run(values) == 500
    assert stored_rows(semel_server.bootstrap) == values


def test_nothing_goes_before_the_rows_that_are_to_be_compared(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    """The first rows of another input may be for a partition that stored none behind the position."""
    identity = tmp_path / "id"
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("days", 2)

    def run(rows: list[tuple[int, str]], **settings) -> None:
        with semel.Producer(
            semel_server.bootstrap, identity_store=identity, linger_ms=0, **settings
        ) as producer:
            kept.append(identity.read_bytes())
            for position, (partition, row) in producer.resume(rows):
                producer.send("days", row, partition=partition, position=position)
                kept.append(identity.read_bytes())

    kept: list[bytes] = []
    run([(1, "a"), (1, "b")])
    identity.write_bytes(kept[1])
    with pytest.raises(InputDiffers, match="nothing of this input was sent"):
        run([(0, "x"), (0, "y"), (1, "z")])
    assert stored_rows(semel_server.bootstrap, partitions=2) == ["a", "b"]
    run([(1, "a"), (1, "b"), (0, "c")])
    assert sorted(stored_rows(semel_server.bootstrap, partitions=2)) == ["a", "b", "c"]


def test_a_producer_that_refused_its_input_does_not_wait_for_the_rows_that_it_held_back(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    identity = tmp_path / "id"
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("days", 2)
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        producer.send("days", "b", partition=1, position=0).result(10)
        kept = identity.read_bytes()
    identity.write_bytes(kept)
    producer = semel.Producer(semel_server.bootstrap, identity_store=identity)
    held = None
    with pytest.raises(InputDiffers, match="nothing of this input was sent"):
        for position, (partition, row) in producer.resume([(0, "a"), (1, "other")]):
            delivery = producer.send("days", row, partition=partition, position=position)
            held = held or delivery
    assert held is not None
    with pytest.raises(InputDiffers):
        producer.flush(5)
    with pytest.raises(NotStored):
        producer.close(5)
    with pytest.raises(NotStored):
        held.result(5)
    assert stored_rows(semel_server.bootstrap, partitions=2) == ["b"]


def test_a_row_that_is_waited_for_goes_though_others_are_still_to_be_compared(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    identity = tmp_path / "id"
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("days", 2)
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        producer.send("days", "b", partition=1, position=0).result(10)
        kept = identity.read_bytes()
    identity.write_bytes(kept)
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        assert producer.identity is not None
        ours = (producer.identity.producer_id, producer.identity.producer_epoch)
        for position, (partition, row) in producer.resume([(0, "a"), (1, "b"), (0, "c")]):
            report = producer.send("days", row, partition=partition, position=position).result(10)
            assert report.already_stored or (report.producer_id, report.producer_epoch) == ours
        producer.flush()
    assert sorted(stored_rows(semel_server.bootstrap, partitions=2)) == ["a", "b", "c"]


def test_another_topic_is_refused_though_no_position_was_saved(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    crash_before_the_save(semel_server.bootstrap, tmp_path / "id", MONDAY)
    with pytest.raises(
        InputDiffers, match="went to topic 'days', and the first that comes is for topic 'other'"
    ):
        load(semel_server.bootstrap, tmp_path / "id", MONDAY, topic="other")
    with semel.Admin(semel_server.bootstrap) as admin:
        assert admin.list_topics() == ["days"]
    assert load(semel_server.bootstrap, tmp_path / "id", MONDAY) == (3, 3)


def test_rows_that_were_trimmed_cannot_be_compared(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    """They are not dropped by their number alone, unless the caller vouches for the input."""
    identity, rows = tmp_path / "id", [f"row-{number}" for number in range(6)]
    crash_before_the_save(semel_server.bootstrap, identity, rows[:5])
    with semel.Admin(semel_server.bootstrap) as admin:
        end = admin.list_offsets({TopicPartition("days", 0): -1})[TopicPartition("days", 0)].offset
        admin.delete_records({TopicPartition("days", 0): end})
    for _ in range(2):
        with pytest.raises(CannotKnow, match=r"deleted .* compare_rows=False"):
            load(semel_server.bootstrap, identity, rows)
    assert load(semel_server.bootstrap, identity, rows, compare_rows=False) == (5, 5)
    assert stored_rows(semel_server.bootstrap) == rows[5:]


# -- an identity that was saved before there were fingerprints -------------------------------------------


def test_a_file_of_the_older_format_goes_on_and_has_a_fingerprint_from_its_next_save_on(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    load(semel_server.bootstrap, tmp_path / "id", MONDAY)
    file = IdentityFile(tmp_path / "id")
    saved = file.read()
    assert isinstance(saved, SavedIdentity) and saved.recent
    (tmp_path / "id").write_bytes(of_version_1(saved))
    assert load(semel_server.bootstrap, tmp_path / "id", [*MONDAY, "mon-4"]) == (3, 0)
    with pytest.raises(InputDiffers):
        load(semel_server.bootstrap, tmp_path / "id", [*MONDAY, "tue-4", "tue-5"])
    assert stored_rows(semel_server.bootstrap) == [*MONDAY, "mon-4"]


@pytest.mark.parametrize("why", ["an older file", "compare_rows=False"])
def test_the_row_at_the_position_is_not_sent_again_where_it_cannot_be_compared(
    semel_server: semel.LocalLog, tmp_path: Path, why: str
) -> None:
    """A function may give it once more, for it to be compared."""
    settings: dict[str, bool] = {"compare_rows": False} if why == "compare_rows=False" else {}

    def run(count: int) -> int:
        with semel.Producer(semel_server.bootstrap, identity_store=tmp_path / "id", **settings) as producer:

            def rows(at: int | None) -> list[tuple[int, str]]:
                return [(number, f"row-{number}") for number in range(at or 0, count)]

            for position, row in producer.resume(rows):
                for part in "ab":
                    producer.send("days", row + part, position=position)
            return producer.rows_skipped

    run(3)
    saved = IdentityFile(tmp_path / "id").read()
    assert isinstance(saved, SavedIdentity)
    if not settings:
        (tmp_path / "id").write_bytes(of_version_1(saved))
    assert run(5) == 1
    assert stored_rows(semel_server.bootstrap) == [f"row-{n}{part}" for n in range(5) for part in "ab"]


def of_version_1(saved: SavedIdentity) -> bytes:
    """As it was written before."""
    import json
    import zlib

    body = json.dumps(
        {
            "name": saved.name,
            "producer_id": saved.producer_id,
            "producer_epoch": saved.producer_epoch,
            "position": saved.position,
            "partition_counts": dict(saved.partition_counts),
            "partitions": [
                [*tp, item.handed, item.stored, item.counted, item.counted_to_offset, item.last_sequence]
                for tp, item in saved.partitions.items()
            ],
            "topic_ids": dict(saved.topic_ids),
        }
    ).encode()
    return b"semel-identity 1 %08x\n%s\n" % (zlib.crc32(body), body)
