from semel.core.log.leader_epochs import (
    LEADER_EPOCH_MAX,
    LeaderEpoch,
    assign,
    cut_end,
    cut_start,
    decode_checkpoint,
    encode_checkpoint,
    end_offset_of,
    next_leader_epoch,
    parted,
    unsaved_leader_epoch,
)

EPOCHS = (LeaderEpoch(0, 0), LeaderEpoch(2, 10), LeaderEpoch(5, 20))


def test_a_new_epoch_begins_where_the_log_ends() -> None:
    assert assign(EPOCHS, 6, 30) == (*EPOCHS, LeaderEpoch(6, 30))
    assert assign(EPOCHS, 5, 30) == EPOCHS, "it has begun already"
    assert assign(EPOCHS, 6, 20) == (*EPOCHS[:2], LeaderEpoch(6, 20)), "nothing was written in epoch 5"


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    assert end_offset_of(EPOCHS, 5, 33) == (5, 33)
    assert end_offset_of(EPOCHS, 2, 33) == (2, 20)
    assert end_offset_of(EPOCHS, 4, 33) == (2, 20)
    assert end_offset_of(EPOCHS, 6, 33) == (-1, -1)
    assert end_offset_of(EPOCHS, -1, 33) == (-1, -1)
    assert end_offset_of(EPOCHS[1:], 1, 33) == (1, 10)
    assert end_offset_of((), 0, 33) == (-1, -1)


def test_who_has_read_what_the_log_has_is_told_nothing() -> None:
    for epoch, offset in ((0, 10), (2, 11), (2, 20), (5, 20), (5, 33)):
        assert parted(EPOCHS, epoch, offset, 33) is None
    assert parted(EPOCHS[1:], 1, 10, 33) is None, (
        "retention has taken the epoch, and the log goes on behind it"
    )


def test_who_has_read_more_is_told_where_the_log_and_they_part() -> None:
    assert parted(EPOCHS, 5, 34, 33) == (5, 33), "it has lost its end, and nothing was written since"
    assert parted(EPOCHS, 2, 25, 33) == (2, 20), "another leader wrote from there on"
    assert parted(EPOCHS, 4, 20, 33) == (2, 20), "what that leader had written is gone altogether"
    assert parted(EPOCHS, 6, 20, 33) == (-1, -1), "an epoch that the log knows nothing of"


def test_a_log_that_is_cut_forgets_the_epochs_beyond() -> None:
    assert cut_end(EPOCHS, 20) == EPOCHS[:2]
    assert cut_start(EPOCHS, 12) == (LeaderEpoch(2, 12), LeaderEpoch(5, 20))
    assert cut_start(EPOCHS, 0) == EPOCHS


def test_the_epoch_of_a_start_follows_the_clock_and_never_goes_back() -> None:
    year_2026_ms = 1_767_225_600_000
    first = next_leader_epoch(0, year_2026_ms, random=7)
    put_back = next_leader_epoch(0, year_2026_ms + 3_600_000, random=0)
    assert put_back > first > 0
    set_back = {next_leader_epoch(first, 0, random) - first for random in range(5000)}
    assert min(set_back) == 2 and 1000 < len(set_back) <= 1024
    assert unsaved_leader_epoch(first) == first + 1
    for last in (next_leader_epoch(LEADER_EPOCH_MAX, 0, 7), next_leader_epoch(0, 2**62, 7)):
        assert last == unsaved_leader_epoch(LEADER_EPOCH_MAX) == LEADER_EPOCH_MAX


def test_the_checkpoint_is_kafkas() -> None:
    assert encode_checkpoint(EPOCHS) == b"0\n3\n0 0\n2 10\n5 20\n"
    assert decode_checkpoint(b"0\n3\n0 0\n2 10\n5 20\n") == EPOCHS
    for bad in [
        b"",
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0\n",
        b"0\n1\n0 x\n",
        b"\xff",
        b"0\n2\n2 0\n1 5\n",
        b"0\n1\n0 2",
    ]:
        assert decode_checkpoint(bad) is None
