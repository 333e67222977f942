from __future__ import annotations

from semel.server.answers import Answers


def test_answers_go_out_in_the_order_of_the_requests() -> None:
    answers = Answers()
    first, second, third = answers.owe(1), answers.owe(2), answers.owe(1)
    assert answers and answers.open_requests == 4
    answers.answer(third, [b"ccc"])
    answers.answer(second, [b"b", b"b"])
    assert answers.take_ready() == []
    assert answers.waiting_bytes == 5
    answers.answer(first, [])
    assert answers.take_ready() == [b"b", b"b", b"ccc"]
    assert (bool(answers), answers.open_requests, answers.waiting_bytes) == (False, 0, 0)


def test_what_waits_for_an_earlier_one_is_counted() -> None:
    answers = Answers()
    first, _, third = answers.owe(1), answers.owe(1), answers.owe(1)
    answers.answer(first, [b"a"])
    answers.answer(third, [b"ccc"])
    assert answers.take_ready() == [b"a"]
    assert (answers.open_requests, answers.waiting_bytes) == (2, 3)


def test_the_last_place_can_be_taken_back() -> None:
    answers = Answers()
    answers.answer(answers.owe(1), [b"a"])
    answers.take_back(answers.owe(3))
    assert answers.open_requests == 1
    owed = answers.owe(1)
    answers.owe_more(owed, 2)
    assert answers.open_requests == 4
    answers.take_back(owed)
    assert answers.take_ready() == [b"a"]
    assert not answers
