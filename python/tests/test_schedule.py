"""Copies are given where the memory that they take has been freed."""

import pytest

pytest.importorskip("torch")

from tidegate.torch import schedule  # noqa: E402


def given(*actions):
    """Numbers of actions in the order in which they are given, each with the copies out that it waits for."""
    listed = [{"task": {task: 0}, "after": after} for task, *after in actions]
    return [(action.number, action.ended) for action in schedule.actions({"content": {"actions": listed}})]


def test_a_copy_in_takes_memory_only_once_compute_has_freed_it():
    """The copy in (4) may start after the copy out (1), which compute waits for at 3 alone: the wait is the copy's, right before 3."""
    made = given(("run",), ("d2h", 0), ("run",), ("run", 1), ("h2d", 1, 2), ("run", 4))
    assert made == [(0, []), (1, []), (2, []), (4, [1]), (3, []), (5, [])]


def test_copies_in_that_one_wait_frees_memory_for_keep_their_order():
    made = given(("run",), ("d2h", 0), ("run",), ("run", 1), ("h2d", 1, 0), ("h2d", 1, 2), ("run", 4, 5))
    assert made == [(0, []), (1, []), (2, []), (4, [1]), (5, []), (3, []), (6, [])]


def test_a_copy_in_over_memory_that_a_copy_still_reads_stays_at_its_place():
    made = given(("run",), ("d2h", 0), ("run",), ("h2d", 1, 0), ("run",), ("run", 3))
    assert made == [(0, []), (1, []), (2, []), (3, [1]), (4, []), (5, [])]


def test_a_copy_in_that_no_copy_out_precedes_is_given_as_early_as_can_be():
    made = given(("run",), ("d2h", 0), ("run", 1), ("run",), ("h2d", 1, 2), ("run", 4))
    assert made == [(0, []), (1, []), (2, [1]), (4, []), (3, []), (5, [])]
