"""What a copy makes of rows, topics and losses, between logs of semel's."""

from __future__ import annotations

import shutil
import threading
import time
import uuid

import pytest
from tests.copy.copying import batches, go, plan_of, put, rows, values
from tests.spark.mortal import Died, die, nothing

import semel
from semel.client.blocking import Cluster
from semel.copy import run_copy
from semel.copy.log import JOURNAL_CONFIG, CopyLog
from semel.copy.plan import Upkeep
from semel.core.copy.journal import Begun, Held, decode
from semel.core.copy.tenure import Tenure
from semel.errors import ConfigError, DataLoss, ProducerFenced, ReplayUnprovable, UnknownTopic
from semel.record.compression import Compression
from semel.types import EARLIEST_TIMESTAMP, TopicPartition


@pytest.fixture
def log(semel_server_session):
    return semel_server_session.bootstrap


@pytest.fixture
def topic(log):
    """One that nobody has, with two partitions."""
    name = f"rows-{uuid.uuid4().hex[:8]}"
    make(log, name, 2)
    return name


def make(bootstrap, name, count=1, **configs):
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(name, count, {key.replace("_", "."): value for key, value in configs.items()})


def job_of(log, topic, **choices):
    """In one log, under names of its own."""
    return plan_of(log, log, topic, **{"name": topic, "prefix": "eu.", **choices})


# -- rows ---------------------------------------------------------------------------------------------------


def test_rows_and_batches_stay_as_they_are(log, topic):
    with semel.Producer(log, compression="zstd") as producer:
        for number in range(50):
            headers = [("n", b"%d" % number)] if number % 2 else None
            producer.send(
                topic, None if number % 9 == 0 else b"v", key=None if number % 5 == 0 else b"%d" % number,
                headers=headers, timestamp_ms=1_600_000_000_000 + number,
            )  # fmt: skip
    put(log, topic, [b"plain"] * 30)
    go(job_of(log, topic))
    for number in range(2):
        assert rows(log, f"eu.{topic}", number) == rows(log, topic, number)
        sent, stored = (batches(log, TopicPartition(name, number)) for name in (topic, f"eu.{topic}"))
        assert [batch[61:] for batch, _ in stored] == [batch[61:] for batch, _ in sent]
        assert {header.compression for _, header in stored} >= {Compression.ZSTD}


def test_times_that_the_log_has_set_stay(log):
    name = f"stamped-{uuid.uuid4().hex[:8]}"
    make(log, name, message_timestamp_type="LogAppendTime", max_message_bytes="2000000")
    put(log, name, [b"a", b"b"])
    go(job_of(log, name))
    assert rows(log, f"eu.{name}") == rows(log, name)
    with semel.Admin(log) as admin:
        configs = admin.describe_configs(f"eu.{name}")
    assert configs["message.timestamp.type"].value == "CreateTime"  # or they would be set again
    assert configs["max.message.bytes"].value == "2000000"


def test_a_copy_goes_on_where_it_was(log, topic):
    for turn in range(3):
        put(log, topic, [b"%d-%d" % (turn, n) for n in range(100)])
        copied, _ = go(job_of(log, topic))
        assert copied.rows == 100
    for number in range(2):
        assert rows(log, f"eu.{topic}", number) == rows(log, topic, number)


def test_a_position_in_the_middle_of_a_batch(log, topic):
    put(log, topic, [b"%d" % n for n in range(10)])
    with semel.Admin(log) as admin:
        admin.delete_records({TopicPartition(topic, 0): 2})
    left = values(log, topic)
    go(job_of(log, topic))
    assert values(log, f"eu.{topic}") == left


def test_no_partition_waits_for_the_end_of_another(log, topic, monkeypatch):
    """An answer is filled from its first partition on, and another one is the first each time."""
    monkeypatch.setattr("semel.copy.reading.PARTITION_BYTES_MAX", 1)  # a batch an answer
    for _ in range(4):
        put(log, topic, [b"row"] * 20)
    with pytest.raises(Died):
        go(job_of(log, topic), at=12, before=die, after=nothing)
    assert values(log, f"eu.{topic}", 0) and values(log, f"eu.{topic}", 1)


# -- topics -------------------------------------------------------------------------------------------------


def test_topics_and_partitions_that_come_later_are_followed(log, topic):
    plan = plan_of(log, log, name=topic, pattern=f"{topic}.*", prefix="eu.")
    put(log, topic, [b"a"] * 20)
    go(plan)
    make(log, f"{topic}-more")
    put(log, f"{topic}-more", [b"b"] * 5)
    with semel.Admin(log) as admin:
        admin.add_partitions(topic, 4)
    put(log, topic, [b"c"] * 20)
    go(plan)
    assert values(log, f"eu.{topic}-more") == [b"b"] * 5
    for number in range(4):
        assert rows(log, f"eu.{topic}", number) == rows(log, topic, number)


def test_an_output_that_another_copy_has_grown_meanwhile(log, topic):
    plan = job_of(log, topic)
    go(plan)
    with semel.Admin(log) as admin:
        admin.add_partitions(topic, 4)

        def grow():
            admin.add_partitions(f"eu.{topic}", 4)

        put(log, topic, [b"a"] * 20)
        _, client = go(plan, at=3, before=grow, after=nothing)
    assert client.made[3] == "add_partitions"
    for number in range(4):
        assert rows(log, f"eu.{topic}", number) == rows(log, topic, number)


def test_they_are_followed_while_it_runs(log, topic, monkeypatch):
    monkeypatch.setattr("semel.copy.run.TOPICS_MAX_AGE_MS", 100)
    stop, seen = threading.Event(), threading.Event()
    plan = plan_of(log, log, name=topic, pattern=f"{topic}.*", prefix="eu.", linger_ms=20)

    def told(copied):
        if copied.rows:
            seen.set()

    copying = threading.Thread(target=run_copy, args=(plan,), kwargs={"stop": stop, "told": told})
    copying.start()
    try:
        make(log, f"{topic}-later")
        put(log, f"{topic}-later", [b"x"])
        assert seen.wait(30)
    finally:
        stop.set()
        copying.join(30)
    assert values(log, f"eu.{topic}-later") == [b"x"]


def test_a_new_job_may_begin_at_the_end(log, topic):
    put(log, topic, [b"before"] * 4)
    plan = job_of(log, topic, start="latest")
    go(plan)
    put(log, topic, [b"after"] * 4)
    go(plan)
    assert values(log, f"eu.{topic}") + values(log, f"eu.{topic}", 1) == [b"after"] * 4


def test_an_output_with_rows_of_nobody_knows_whom_is_refused(log, topic):
    put(log, topic, [b"a"] * 4)
    make(log, f"eu.{topic}", 2)
    put(log, f"eu.{topic}", [b"there"] * 4)
    with pytest.raises(ConfigError, match="has records already"):
        go(job_of(log, topic))
    go(job_of(log, topic, appends=True))
    assert sorted(values(log, f"eu.{topic}") + values(log, f"eu.{topic}", 1)) == [b"a"] * 4 + [b"there"] * 4


def test_an_output_that_would_set_other_times_is_refused(log, topic):
    make(log, f"eu.{topic}", 2, message_timestamp_type="LogAppendTime")
    with pytest.raises(ConfigError, match="another time than the source's"):
        go(job_of(log, topic))
    assert values(log, f"eu.{topic}") == []


def put_tomorrow(log, name):
    """A row of a day from now, which a topic takes that is told to."""
    make(log, name, message_timestamp_after_max_ms="172800000")
    with semel.Producer(log) as producer:
        producer.send(name, b"tomorrow", timestamp_ms=time.time_ns() // 10**6 + 86_400_000)


def test_rows_of_tomorrow_come(log):
    name = f"ahead-{uuid.uuid4().hex[:8]}"
    put_tomorrow(log, name)
    go(job_of(log, name))
    assert rows(log, f"eu.{name}") == rows(log, name) != []


def test_an_output_that_does_not_take_rows_of_tomorrow_is_told_what_to_change(log):
    name = f"ahead-{uuid.uuid4().hex[:8]}"
    put_tomorrow(log, name)
    make(log, f"eu.{name}")
    with pytest.raises(
        ConfigError, match=r"alter-config eu\..* -c message.timestamp.after.max.ms=92233720"
    ) as told:
        go(job_of(log, name))
    assert "for its rows' times (1 of the batch's 1 records" in str(told.value)
    with semel.Admin(log) as admin:
        admin.alter_configs(f"eu.{name}", {"message.timestamp.after.max.ms": str(2**63 - 1)})
    go(job_of(log, name))
    assert rows(log, f"eu.{name}") == rows(log, name)


def test_a_job_keeps_its_outputs(log, topic):
    put(log, topic, [b"a"])
    go(job_of(log, topic))
    with pytest.raises(ConfigError, match="is told to copy it to"):
        go(job_of(log, topic, prefix="us."))


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"name": "a/b"}, "cannot name a job"),
        ({"pattern": "("}, "one of both"),
        ({"start": "noon"}, "earliest or at latest"),
        ({"bytes_per_s": 0}, "above 0"),
    ],
)
def test_what_makes_no_job(choices, says):
    with pytest.raises(ConfigError, match=says):
        job_of("127.0.0.1:1", "t", **choices)


def test_a_cluster_is_not_copied_into_itself(log, topic):
    """By whatever name it is called."""
    put(log, topic, [b"a"])
    with pytest.raises(ConfigError, match="are one cluster"):
        go(plan_of(log.replace("127.0.0.1", "localhost"), log, topic, name=topic))
    whole = plan_of(log, log, name=topic, pattern=f"(eu.)?{topic}", prefix="eu.")
    go(whole)
    go(whole)
    assert values(log, f"eu.{topic}") + values(log, f"eu.{topic}", 1) == [b"a"]
    with semel.Admin(log) as admin:
        assert f"eu.eu.{topic}" not in admin.list_topics()


def test_copies_are_not_copied_back(two_logs, caplog):
    """Each of two jobs copies all topics the other way; a copy by its name goes where it is told to."""
    ours, theirs = (server.bootstrap for server in two_logs)
    make(theirs, "own")
    put(ours, "t", [b"a"])
    put(theirs, "own", [b"b"])
    for _ in range(3):
        go(plan_of(ours, theirs, name="there", pattern=".*", prefix="a."))
        go(plan_of(theirs, ours, name="back", pattern=".*", prefix="b."))
    assert {name for name in topics_of(ours) if name[0] != "_"} == {"t", "b.own"}
    assert {name for name in topics_of(theirs) if name[0] != "_"} == {"a.t", "own"}
    assert (values(theirs, "a.t"), values(ours, "b.own")) == ([b"a"], [b"b"])
    assert "'a.t'" in caplog.text and "job 'there' has copied it there from 't'" in caplog.text
    go(plan_of(theirs, ours, "a.t", name="by-name", prefix="restored."))
    assert values(ours, "restored.a.t") == [b"a"]


def test_two_jobs_in_one_cluster_come_to_an_end(log, topic):
    put(log, topic, [b"a"])
    pattern = rf"([xy]\.)*{topic}"
    for _ in range(3):
        for prefix in ("x.", "y."):
            go(plan_of(log, log, name=f"{prefix}{topic}", pattern=pattern, prefix=prefix))
    made = {name.removesuffix(topic) for name in topics_of(log) if name.endswith(topic) and name[0] in "xy"}
    assert made == {
        "x.",
        "y.",
        "y.x.",
        "x.y.",
    }  # what another job has copied, but not if it is one's own copy


def test_a_chain_of_jobs_in_one_cluster_goes_on(log, topic):
    put(log, topic, [b"a"])
    go(plan_of(log, log, name=f"1{topic}", pattern=topic, prefix="x."))
    go(plan_of(log, log, name=f"2{topic}", pattern=f"x\\.{topic}", prefix="y."))
    assert values(log, f"y.x.{topic}") + values(log, f"y.x.{topic}", 1) == [b"a"]


def test_a_topic_that_is_not_there(log):
    with pytest.raises(ConfigError, match="there is no topic 'none-such'"):
        go(job_of(log, "none-such", name=uuid.uuid4().hex))


def test_a_batch_that_is_too_large_there_is_named(log, topic):
    put(log, topic, [b"small"])
    make(log, f"eu.{topic}", 2, max_message_bytes="1000")
    go(job_of(log, topic))
    put(log, topic, [b"x" * 5000] * 3)
    with pytest.raises(ConfigError, match=r"Raise max.message.bytes of 'eu\."):
        go(job_of(log, topic))
    with semel.Admin(log) as admin:
        admin.alter_configs(f"eu.{topic}", {"max.message.bytes": "100000"})
    go(job_of(log, topic))
    for number in range(2):
        assert rows(log, f"eu.{topic}", number) == rows(log, topic, number)


# -- two copies ---------------------------------------------------------------------------------------------


def test_of_two_copies_the_older_one_stops_and_says_who(log, topic):
    failed = []
    begun = threading.Event()

    def older():
        try:
            run_copy(job_of(log, topic, linger_ms=20), told=lambda copied: begun.set())
        except ProducerFenced as error:
            failed.append(str(error))

    copying = threading.Thread(target=older)
    copying.start()
    assert begun.wait(30)
    go(job_of(log, topic))
    put(log, topic, [b"a"] * 10)
    copying.join(60)
    assert "was taken over by process" in failed[0] and "What it has stored stays" in failed[0]
    go(job_of(log, topic))
    assert len(values(log, f"eu.{topic}") + values(log, f"eu.{topic}", 1)) == 10


@pytest.mark.parametrize("at", [5, 6, 7])  # in front of JOINED, NEXT and the rows
@pytest.mark.parametrize("dies", [False, True])
def test_two_jobs_on_one_output_do_not_both_go_on(log, topic, at, dies):
    """Both have found it empty. The other one's rows are in front, whether an answer says so or the next start."""
    put(log, topic, [b"a"] * 40)
    late, other = job_of(log, topic), job_of(log, topic, name=f"{topic}-other")

    def meanwhile():
        go(other)
        if dies:
            die()

    with pytest.raises(Died if dies else ConfigError) as told:
        go(late, at=at, before=meanwhile, after=nothing)
    assert dies or "in front of the job's own first row" in str(told.value)
    for _ in range(2):
        if dies and at == 5:  # it has no place yet
            with pytest.raises(ConfigError, match="has records already"):
                go(late)
        else:
            with pytest.raises(ConfigError, match="by now, in front of the job's own first row"):
                go(late)
    go(other)
    go(job_of(log, topic, appends=True))
    assert sum(len(values(log, f"eu.{topic}", number)) for number in range(2)) == 80


def test_a_job_that_was_alone_at_first_may_have_company_later(log, topic):
    put(log, topic, [b"a"] * 40)
    go(job_of(log, topic))
    put(log, f"eu.{topic}", [b"there"] * 40)
    put(log, topic, [b"b"] * 40)
    go(job_of(log, topic))
    assert sum(len(values(log, f"eu.{topic}", number)) for number in range(2)) == 120


# -- losses -------------------------------------------------------------------------------------------------


def test_rows_that_went_before_they_were_copied_are_told(log, topic):
    put(log, topic, [b"%d" % n for n in range(40)])
    go(job_of(log, topic))
    done = len(values(log, topic))
    put(log, topic, [b"late-%d" % n for n in range(40)])
    with semel.Admin(log) as admin:
        admin.delete_records({TopicPartition(topic, 0): done + 3})
    with pytest.raises(DataLoss, match="had copied them") as told:
        go(job_of(log, topic))
    assert (told.value.lost_from, told.value.lost_to_end) == (done, done + 3)
    go(job_of(log, topic, goes_on_after_loss=True))
    assert len(values(log, f"eu.{topic}")) == done + len(values(log, topic))


def test_a_topic_made_anew_at_the_source(log, topic):
    put(log, topic, [b"old"] * 4)
    go(job_of(log, topic))
    copied = len(
        values(log, topic)
    )  # of its first partition all there was: what came behind it, if any, is gone
    with semel.Admin(log) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, 2)
    put(log, topic, [b"new"] * 60)  # more than were copied of the one before
    wanted = (
        rf"all offsets from {copied} on of topic '{topic}', partition 0 are gone: .* deleted and made anew"
    )
    with pytest.raises(DataLoss, match=wanted):
        go(job_of(log, topic))
    go(job_of(log, topic, goes_on_after_loss=True))
    stored = values(log, f"eu.{topic}") + values(log, f"eu.{topic}", 1)
    assert sorted(stored) == [b"new"] * 60 + [b"old"] * 4
    go(job_of(log, topic))


def test_a_topic_made_anew_at_the_destination(log, topic):
    put(log, topic, [b"old"] * 4)
    go(job_of(log, topic))
    with semel.Admin(log) as admin:
        admin.delete_topic(f"eu.{topic}")
    with pytest.raises(ReplayUnprovable, match="was deleted since job"):
        go(job_of(log, topic))
    make(log, f"eu.{topic}", 2)
    with pytest.raises(ReplayUnprovable, match="was deleted and made anew since job"):
        go(job_of(log, topic))


@pytest.fixture
def two_logs(semel_server_factory):
    source, destination = semel_server_factory(), semel_server_factory()
    make(source.bootstrap, "t")
    return source, destination


def put_back(server, saved):
    server.stop()
    shutil.rmtree(server.data_dir)
    shutil.copytree(saved, server.data_dir)
    server.restart()


def saved_as(server, folder):
    server.stop()
    shutil.copytree(server.data_dir, folder)
    server.restart()
    return folder


@pytest.mark.parametrize("more", [[], [1] * 50, [10], [30], [3] * 10])
def test_a_source_that_was_put_back_from_an_older_copy(two_logs, tmp_path, more):
    """Its rows behind that are others now, also where it has grown beyond what was copied, in batches of any size."""
    source, destination = two_logs
    put(source.bootstrap, "t", [b"a"] * 10)
    saved = saved_as(source, tmp_path / "saved")
    put(source.bootstrap, "t", [b"b"] * 10)
    plan = plan_of(source.bootstrap, destination.bootstrap, "t")
    go(plan)
    put_back(source, saved)
    for count in more:
        put(source.bootstrap, "t", [b"c"] * count)
    with pytest.raises(DataLoss, match="lost its end"):
        go(plan)
    assert values(destination.bootstrap, "t") == [b"a"] * 10 + [b"b"] * 10


@pytest.mark.parametrize("rests", [False, True])
def test_a_source_that_was_put_back_and_grew_under_a_copy_that_goes_on(two_logs, tmp_path, rests):
    """It was away for a moment, and has other rows then where the copy stands."""
    source, destination = two_logs
    put(source.bootstrap, "t", [b"a"] * 10)
    saved = saved_as(source, tmp_path / "saved")
    with semel.LocalLog(saved) as elsewhere:
        put(elsewhere.bootstrap, "t", [b"c"] * 30)
    put(source.bootstrap, "t", [b"b"] * 10)
    plan, stop, failed = plan_of(source.bootstrap, destination.bootstrap, "t"), threading.Event(), []

    def copy():
        try:
            run_copy(plan, stop=stop)
        except DataLoss as error:
            failed.append(str(error))

    copying = threading.Thread(target=copy)
    copying.start()
    try:
        await_rows(destination.bootstrap, "t", 20)
        put_back(source, saved)
        if not rests:
            put(source.bootstrap, "t", [b"d"] * 10)
        copying.join(20)
        assert not copying.is_alive()
    finally:
        stop.set()
        copying.join(60)
    assert "lost its end" in failed[0]
    assert values(destination.bootstrap, "t") == [b"a"] * 10 + [b"b"] * 10


def await_rows(bootstrap, topic, count):
    deadline_s = time.monotonic() + 60
    while topic not in topics_of(bootstrap) or len(values(bootstrap, topic)) < count:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def topics_of(bootstrap):
    with semel.Admin(bootstrap) as admin:
        return admin.list_topics()


def test_a_destination_that_was_put_back_as_a_whole_goes_on_from_there(two_logs, tmp_path):
    source, destination = two_logs
    put(source.bootstrap, "t", [b"a"] * 10)
    plan = plan_of(source.bootstrap, destination.bootstrap, "t")
    go(plan)
    saved = saved_as(destination, tmp_path / "saved")
    put(source.bootstrap, "t", [b"b"] * 10)
    go(plan)
    put_back(destination, saved)
    go(plan)
    assert rows(destination.bootstrap, "t") == rows(source.bootstrap, "t")


@pytest.mark.parametrize("more", [0, 15])
def test_an_output_that_lost_its_end_is_told(two_logs, tmp_path, more):
    """Also where it has grown again meanwhile."""
    source, destination = two_logs
    put(source.bootstrap, "t", [b"a"] * 10)
    plan = plan_of(source.bootstrap, destination.bootstrap, "t")
    go(plan)
    destination.stop()
    (output,) = destination.data_dir.rglob("t-0")
    shutil.copytree(output, tmp_path / "saved")
    destination.restart()
    put(source.bootstrap, "t", [b"b"] * 10)
    go(plan)
    destination.stop()
    shutil.rmtree(output)
    shutil.copytree(tmp_path / "saved", output)
    destination.restart()
    put(destination.bootstrap, "t", [b"c"] * more)
    with pytest.raises(ReplayUnprovable, match="has lost its end"):
        go(plan)


def test_an_output_that_lost_its_end_under_a_copy_is_told_before_a_row_goes_there(two_logs, tmp_path):
    source, destination = two_logs
    put(source.bootstrap, "t", [b"a"] * 10)
    plan = plan_of(source.bootstrap, destination.bootstrap, "t", linger_ms=20)
    go(plan)
    destination.stop()
    (output,) = destination.data_dir.rglob("t-0")
    shutil.copytree(output, tmp_path / "saved")
    destination.restart()
    put(source.bootstrap, "t", [b"b"] * 10)
    go(plan)
    at_rest, failed = threading.Event(), []

    def copying():
        try:
            run_copy(plan, told=lambda copied: at_rest.set())
        except ReplayUnprovable as error:
            failed.append(str(error))

    running = threading.Thread(target=copying)
    running.start()
    assert at_rest.wait(30)
    destination.stop()
    shutil.rmtree(output)
    shutil.copytree(tmp_path / "saved", output)
    destination.restart()
    put(source.bootstrap, "t", [b"c"] * 5)
    running.join(60)
    assert "has lost its end" in failed[0]
    assert values(destination.bootstrap, "t") == [b"a"] * 10


# -- the journal --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trims", [False, True])
def test_a_journal_that_alone_was_put_back_from_an_older_copy_is_told(two_logs, tmp_path, trims):
    """Every time: nothing that a copy of it does makes the journal look right. ``trims``: the rows went since."""
    source, destination = two_logs
    put(source.bootstrap, "t", [b"a"] * 10)
    plan = plan_of(source.bootstrap, destination.bootstrap, "t")
    go(plan)
    destination.stop()
    (journal,) = destination.data_dir.rglob("__semel_copy.job-0")
    shutil.copytree(journal, tmp_path / "saved")
    destination.restart()
    put(source.bootstrap, "t", [b"b"] * 10)
    go(plan)
    if trims:
        with semel.Admin(destination.bootstrap) as admin:
            admin.delete_records({TopicPartition("t", 0): 20})
    kept = values(destination.bootstrap, "t")
    destination.stop()
    shutil.rmtree(journal)
    shutil.copytree(tmp_path / "saved", journal)
    destination.restart()
    put(source.bootstrap, "t", [b"c"] * 10)
    for _ in range(2):
        with pytest.raises(ReplayUnprovable, match="has lost its end"):
            go(plan)
    assert values(destination.bootstrap, "t") == kept


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_journal_that_alone_was_put_back_under_a_copy_is_told(two_logs, tmp_path, is_empty):
    """Behind a lost connection: who held the job before is the last in it again, and is no newer copy; or nobody is."""
    source, destination = two_logs
    plan = plan_of(source.bootstrap, destination.bootstrap, "t")
    if is_empty:
        make(destination.bootstrap, plan.journal, **JOURNAL_CONFIG)
    else:
        go(plan)
    destination.stop()
    (journal,) = destination.data_dir.rglob("__semel_copy.job-0")
    shutil.copytree(journal, tmp_path / "saved")
    destination.restart()
    tenure = Tenure()
    with Cluster(destination.bootstrap) as cluster:
        CopyLog(cluster, plan, tenure).take_over()
        destination.stop()
        shutil.rmtree(journal)
        shutil.copytree(tmp_path / "saved", journal)
        destination.restart()
        for _ in range(2):
            with pytest.raises(
                ReplayUnprovable, match=r"has lost its end.* Nothing more was copied\. Start the job"
            ):
                CopyLog(cluster, plan, tenure).take_over()


def test_a_journal_that_would_lose_what_is_old(log, topic):
    put(log, topic, [b"a"])
    go(job_of(log, topic))
    with semel.Admin(log) as admin:
        admin.alter_configs(f"__semel_copy.{topic}", {"retention.ms": "1000"})
    with pytest.raises(ConfigError, match=r"retention.ms=1000.* -c retention.ms=-1"):
        go(job_of(log, topic))


def test_what_somebody_else_wrote_into_it(log, topic):
    put(log, topic, [b"a"])
    go(job_of(log, topic))
    put(log, f"__semel_copy.{topic}", [b"hello"])
    with pytest.raises(ReplayUnprovable, match="cannot be read"):
        go(job_of(log, topic))


@pytest.mark.parametrize(
    "begun_every", [1, 1_000]
)  # the latter: in front of what copies before have begun with
def test_it_is_cut_behind_a_place_that_all_can_go_on_from(log, topic, begun_every):
    upkeep = Upkeep(begun_every=begun_every, kept_ms=0)
    journal = TopicPartition(f"__semel_copy.{topic}", 0)
    for turn in range(3):
        for part in range(3):
            put(log, topic, [b"%d-%d" % (turn, part)] * 10)
        go(job_of(log, topic, upkeep=upkeep))
    with semel.Admin(log) as admin:
        start = admin.list_offsets({journal: EARLIEST_TIMESTAMP})[journal].offset
    assert start > 0
    assert isinstance(decode(values(log, journal.topic)[0]), Begun)
    for number in range(2):
        assert rows(log, f"eu.{topic}", number) == rows(log, topic, number)


def test_a_copy_that_grows_old_takes_the_job_over_from_itself(log, topic):
    """A log forgets who has written nothing for a day."""
    plan = job_of(log, topic, linger_ms=20, upkeep=Upkeep(run_ms_max=300))
    put(log, topic, [b"%d" % n for n in range(20)])
    stop = threading.Event()
    copying = threading.Thread(target=run_copy, args=(plan,), kwargs={"stop": stop})
    copying.start()
    try:
        for _ in range(300):
            if held(log, plan.journal) >= 3:
                break
            copying.join(0.1)
            put(log, topic, [b"more"])
    finally:
        stop.set()
        copying.join(60)
    assert held(log, plan.journal) >= 3
    go(job_of(log, topic))
    for number in range(2):
        assert rows(log, f"eu.{topic}", number) == rows(log, topic, number)


def held(log, journal):
    """How often the job was taken over."""
    try:
        return sum(isinstance(decode(value), Held) for value in values(log, journal))
    except UnknownTopic:
        return 0
