"""The record says nothing of a tree against itself, and names what differs."""

import numpy as np

from tests.golden.__main__ import compute, difference


def test_a_tree_does_not_differ_from_itself():
    before, after = compute("SVC moons 20x2"), compute("SVC moons 20x2")
    assert len(before) == 3  # three C
    assert all(difference(before[name], after[name]) == "" for name in before)


def test_a_difference_is_told_in_words():
    before = {"alpha": np.array([0.0, 4.0]), "0.certificate": np.arange(11.0), "left": np.ones(1)}
    after = {"alpha": np.array([0.0, 5.0]), "0.certificate": np.arange(1.0, 12.0)}
    told = difference(before, after)
    assert "alpha: 2.5e-01 of 4" in told
    assert "gap 3.0e+00 -> 4.0e+00" in told
    assert "only before: left" in told
    assert difference("ValueError: x", after) == "ValueError: x -> a result"
