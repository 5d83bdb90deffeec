"""The compiled dual bound against its definition: D at every breakpoint, and a sorted running sum."""

import numpy as np
import pytest
from dualflow.core._bound import best_of, capped_sum, maximisers


def dual(nu, h, e, u, d):
    """D(ν) = νd + Σ min(0, uᵢ(hᵢ − νeᵢ)), 0·∞ = 0."""
    rho = h - nu * e
    return nu * d + sum(u[i] * rho[i] for i in range(len(h)) if rho[i] < 0 and u[i] > 0)


def problem(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    # Few values: ties among breakpoints and among bounds are ordinary (duplicate points, one C).
    h = rng.integers(-4, 5, n) / 2 if seed % 2 else rng.standard_normal(n)
    e = np.ones(n) if seed % 3 == 0 else rng.choice([-1.0, 1.0], n)
    u = rng.choice([0.0, 0.25, 1.0, 2.0], n) if seed % 5 else rng.choice([1.0, np.inf], n)
    reach = np.minimum(u, 3.0)
    d = float(rng.choice([0.0, rng.uniform(-reach[e < 0].sum(), reach[e > 0].sum())]))
    return h, e, u, d


@pytest.mark.parametrize("seed", range(300))
def test_every_point_of_the_interval_is_a_maximiser_and_none_beyond(seed):
    h, e, u, d = problem(seed)
    low, high = maximisers(h, e, u, d)
    knots = np.unique((h * e)[u > 0])
    ends = np.concatenate([knots, [low, high, 0.5 * (low + high)]])
    values = np.array([dual(x, h, e, u, d) for x in ends[np.isfinite(ends)]])
    best = values.max(initial=-np.inf)
    if not len(knots):
        return  # no breakpoint: D is linear
    if best == -np.inf:  # unbounded variables leave no finite D
        return
    for nu in (low, high, 0.5 * (low + high)):
        assert dual(nu, h, e, u, d) == pytest.approx(best, abs=1e-12)
    for nu, step in ((low, -1e-3), (high, 1e-3)):
        beyond = dual(nu + step, h, e, u, d)
        flat_without_end = nu + step < knots[0] or nu + step > knots[-1]
        assert beyond < best - 1e-6 or flat_without_end


@pytest.mark.parametrize("seed", range(100))
def test_any_alpha_leaves_the_bound_and_its_multipliers_as_they_are(seed):
    """Free variables of α, right or wrong, narrow the range in which the maximum is looked for first, and no more."""
    h, e, u, d = problem(seed)
    low, high = maximisers(h, e, u, d)
    rho = h - 0.5 * (low + high) * e
    optimal = np.where(rho < 0, np.minimum(u, 9.0), np.where(rho > 0, 0.0, 0.5 * np.minimum(u, 9.0)))
    ends = [np.where(np.arange(len(h)) == k, 0.5 * np.minimum(u, 9.0), 0.0) for k in np.argsort(h * e)[[0, -1]]]
    bests = [best_of(h, e, u, u, d, 0.0, alpha) for alpha in (np.zeros(len(h)), optimal, *ends)]
    for found in bests:
        np.testing.assert_array_equal(found, (low, high, bests[0][2]))  # NaN without a breakpoint


def test_a_thousand_breakpoints_against_sorting():
    rng = np.random.default_rng(0)
    h, e = rng.standard_normal(1000), rng.choice([-1.0, 1.0], 1000)
    for u in (np.full(1000, 2.5), rng.uniform(0, 3, 1000), np.repeat([0.0, 1.0], 500)):
        for d in (0.0, 17.3):
            order = np.argsort(h * e)
            slope = d - (np.cumsum(u[order]) - u[e < 0].sum())
            knots = (h * e)[order]
            tiny = 1e-9
            expected = knots[np.argmax(slope <= tiny)], knots[np.argmax(slope < -tiny)]
            assert maximisers(h, e, u, d) == expected


def test_sorted_reversed_and_equal_breakpoints_end():
    n = 20_000
    for knots in (np.arange(n) * 1.0, -np.arange(n) * 1.0, np.zeros(n), np.arange(n) % 2 * 1.0):
        low, high = maximisers(knots, np.ones(n), np.ones(n), n / 2 - 0.5)
        assert low == high == np.sort(knots)[n // 2 - 1]


def test_nan_gives_nan_and_lengths_are_checked():
    assert np.isnan(maximisers(np.array([0.0, np.nan]), np.ones(2), np.ones(2), 1.0)).all()
    with pytest.raises(ValueError, match="one length"):
        maximisers(np.zeros(3), np.ones(2), np.ones(3), 1.0)
    with pytest.raises(ValueError, match="one length"):
        capped_sum(np.zeros(3), np.zeros(2), None, 0.0)


def test_capped_sum_is_its_definition():
    u, h, e = np.array([np.inf, np.inf, 2.0, 0.0, 1.0]), np.array([1.0, 0.0, -3.0, -5.0, -0.5]), np.ones(5)
    assert capped_sum(u, h, None, 0.0) == -6.5
    assert capped_sum(u, h, e, -1.0) == -4.0
    assert capped_sum(u, h, e, 0.5) == -np.inf


def test_a_plateau_is_found_through_rounding():
    """0.1 + 0.1 + 0.1 is more than 0.3 by a last bit: D is flat from the third breakpoint to the fourth anyway."""
    assert maximisers(np.arange(5.0), np.ones(5), np.full(5, 0.1), 0.3) == (2.0, 3.0)


def test_nan_gives_no_bound_and_a_short_vector_is_refused():
    h, ones = np.array([1.0, np.nan, 0.5]), np.ones(3)
    assert np.isnan(best_of(h, ones, ones, ones, 1.0, 0.0, np.zeros(3))).all()
    with pytest.raises(ValueError, match="one length"):
        best_of(ones, ones, ones, ones[:2], 0.0, 0.0, np.zeros(3))
