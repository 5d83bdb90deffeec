"""Tests of the distribution of a group's weight over equal points, each up to its own bound."""

import numpy as np
import pytest

from dualflow import EcoSVDD
from dualflow.online.stream import _distributed


def test_bounds_are_met_exactly():
    room = np.full(133, 1.0 / (0.9233379553099887 * 144))
    group = np.arange(133) % 3
    upper = np.bincount(group, room)
    alpha = upper.copy()
    alpha[1] = room[group == 1][:20].sum() * (1 + 1e-16) + 0.5 * room[0]
    given = _distributed(alpha, upper, group, room)
    assert np.bincount(group, given) == pytest.approx(alpha, rel=1e-13)
    assert np.count_nonzero((given > 0) & (given < room)) == 1
    assert np.count_nonzero(given[group == 1] == room[0]) == 20


def test_a_group_without_bound_gives_all_weight_to_its_first_point():
    given = _distributed(np.array([0.7, 0.3]), np.full(2, np.inf), np.array([0, 1, 0, 1]), np.full(4, np.inf))
    assert given.tolist() == [0.7, 0.3, 0.0, 0.0]


def test_the_radius_of_many_equal_points_is_that_of_the_ball():
    rng = np.random.default_rng(4)
    X = (rng.random((144, 2)) < 0.3).astype(float)
    for nu in (0.1, 0.5, 0.92):
        eco = EcoSVDD(kernel="linear", nu=nu, n_init=144, reserve=144).fit(X)
        center = eco.dual_coef_[0] @ X[eco.support_]
        distances = ((X - center) ** 2).sum(axis=1)
        primal = -eco.offset_ + np.maximum(0, distances + eco.offset_).sum() / (nu * 144)
        dual = eco.dual_coef_[0] @ (X[eco.support_] ** 2).sum(axis=1) - center @ center
        assert primal == pytest.approx(dual, rel=1e-9)
