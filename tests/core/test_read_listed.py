"""The multiclass model of the weights of pairs, against sums over the pairs in LIBSVM's layout."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from dualflow.core._pair_bound import read_listed

LEFT = 1e-3


def by_definition(parts, starts):
    """Support vectors, how many a class has, and both layouts, entry by entry; ``parts[i, j]`` is what the points of
    class i weigh beside class j."""
    sizes, pairs = np.diff(starts), list(combinations(range(len(starts) - 1), 2))
    pair_coef, dual_coef = np.zeros((starts[-1], len(pairs))), np.zeros((len(sizes) - 1, starts[-1]))
    for k, (i, j) in enumerate(pairs):
        least = LEFT * max(np.abs(parts[i, j]).max(), np.abs(parts[j, i]).max())
        for own, other in ((i, j), (j, i)):
            counts = np.where(np.abs(parts[own, other]) > least, parts[own, other], 0.0)
            rows = slice(starts[own], starts[own + 1])
            pair_coef[rows, k] = counts
            dual_coef[other - (other > own), rows] = counts
    places = np.flatnonzero(pair_coef.any(axis=1))
    n_support = [np.count_nonzero((places >= a) & (places < b)) for a, b in pairwise(starts)]
    return places, n_support, pair_coef[places], dual_coef[:, places]


@pytest.mark.parametrize("sizes", [[1, 1], [3, 5], [4, 1, 6], [2, 7, 3, 5, 1]], ids=str)
def test_coefficients_are_laid_out_as_defined(sizes):
    rng, starts = np.random.default_rng(sum(sizes)), np.r_[0, np.cumsum(sizes)]
    parts = {
        (i, j): rng.normal(size=sizes[i]) * rng.choice([0.0, 1e-4, 1.0], size=sizes[i])
        for i in range(len(sizes))
        for j in range(len(sizes))
        if i != j
    }
    weights = np.concatenate(
        [part for i, j in combinations(range(len(sizes)), 2) for part in (parts[i, j], parts[j, i])]
    )
    before = weights.copy()
    for found, expected in zip(read_listed(weights, starts, LEFT), by_definition(parts, starts), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(weights, before)


def test_all_weights_are_zero():
    places, n_support, pair_coef, dual_coef = read_listed(np.zeros(5), np.array([0, 2, 5]), LEFT)
    assert (places.tolist(), n_support.tolist(), pair_coef.shape, dual_coef.shape) == ([], [0, 0], (0, 1), (1, 0))


@pytest.mark.parametrize(
    ("count", "starts"),
    [(5, [0, 5]), (5, [0, 2, 6]), (4, [0, 2, 5]), (5, [1, 2, 6]), (5, [0, 6, 5]), (0, [0])],
    ids=str,
)
def test_what_does_not_go_together_is_refused(count, starts):
    with pytest.raises(ValueError, match="starts must list"):
        read_listed(np.ones(count), np.array(starts), LEFT)
