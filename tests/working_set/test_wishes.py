"""Vector operations of a search over points agree with numpy, in either precision of the gradient."""

import numpy as np
import pytest
from dualflow.core._bound import undetermined_signs
from dualflow.working_set._wishes import multiplier, scaled, unscaled, violations

RNG = np.random.default_rng(0)
N = 300
E = RNG.choice([-1.0, 1.0], N)
UPPER = RNG.uniform(0.5, 2.0, N)
ALPHA = np.where(RNG.random(N) < 0.3, 0.0, np.where(RNG.random(N) < 0.4, UPPER, UPPER * RNG.random(N)))
LOW, HIGH = np.where(E > 0, 0.0, -UPPER), np.where(E > 0, UPPER, 0.0)
BETA = E * ALPHA


def by_numpy(G, nu):
    rise, fall = np.where(BETA < HIGH, nu - G, -1e300), np.where(BETA > LOW, G - nu, -1e300)
    return np.maximum(rise, fall)


def test_scaled_variables_are_within_their_bounds():
    p, sigma = RNG.normal(size=N), RNG.choice([-1.0, 1.0], N)
    sign, ep, low, high, beta = scaled(E, sigma, p, UPPER, ALPHA, 1.0, 1.0)
    np.testing.assert_array_equal(sign, E * sigma)
    np.testing.assert_array_equal(ep, E * p)
    np.testing.assert_array_equal(low, LOW)
    np.testing.assert_array_equal(high, HIGH)
    np.testing.assert_array_equal(beta, BETA)
    _, ep, low, high, beta = scaled(E, sigma, p, np.where(E > 0, UPPER, np.inf), ALPHA + 3.0, 0.3, 0.7)
    np.testing.assert_array_equal(ep, E * p / 0.7)
    np.testing.assert_array_equal(high, np.where(E > 0, UPPER / 0.3, 0.0))
    np.testing.assert_array_equal(low, np.where(E > 0, 0.0, -1e300))
    np.testing.assert_array_equal(beta, np.where(E > 0, UPPER, -(ALPHA + 3.0)) / 0.3)


def test_multipliers_are_within_their_bounds():
    np.testing.assert_array_equal(unscaled(E, BETA, LOW, HIGH, UPPER, 1.0), ALPHA)
    beyond = unscaled(E, 3.0 * BETA - 0.1 * E, LOW, HIGH, UPPER, 1.0)
    np.testing.assert_array_equal(beyond, np.clip(3.0 * ALPHA - 0.1, 0.0, UPPER))
    in_units = unscaled(E, BETA / 0.3, LOW / 0.3, HIGH / 0.3, UPPER, 0.3)
    np.testing.assert_allclose(in_units, ALPHA, rtol=1e-15)
    np.testing.assert_array_equal(in_units[ALPHA == UPPER], UPPER[ALPHA == UPPER])  # not to an ulp alone


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_multiplier_is_the_mean_of_the_free(dtype):
    G = RNG.normal(size=N).astype(dtype)
    free = (BETA > LOW) & (BETA < HIGH)
    mean, count = multiplier(G, BETA, LOW, HIGH)
    assert count == free.sum() > 0
    assert mean == pytest.approx(G[free].astype(float).mean(), rel=1e-12)
    assert multiplier(G, LOW, LOW, HIGH) == (0.0, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("nu", [-0.5, 0.0, 1.3])
def test_violations(dtype, nu):
    G = RNG.normal(size=N).astype(dtype)
    excess = violations(G, nu, BETA, LOW, HIGH)
    np.testing.assert_allclose(excess, by_numpy(G.astype(float), nu), rtol=1e-14, atol=1e-15)


def test_undetermined_signs():
    sums, error_bounds = RNG.normal(size=N), RNG.uniform(0.0, 0.2, N)
    error_bounds[:50] = -np.inf
    rho = np.minimum(E * (sums - 0.1), E * (sums + 0.4)) - 0.6
    some, which = undetermined_signs(sums, error_bounds, E, 0.1, -0.4, 0.6, 2.0)
    assert some == (rho <= error_bounds).any()
    np.testing.assert_array_equal(which, np.flatnonzero(rho <= 2.0 * error_bounds))
    assert 0 < len(which) < N
    # None is undetermined, though some nearly are.
    error_bounds = np.where(rho > 0, 0.7 * rho, -np.inf)
    some, which = undetermined_signs(sums, error_bounds, E, 0.1, -0.4, 0.6, 2.0)
    assert not some
    np.testing.assert_array_equal(which, np.flatnonzero(rho > 0))


def test_lengths_are_checked():
    with pytest.raises(ValueError, match="one length"):
        violations(np.zeros(3), 0.0, np.zeros(2), np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="one length"):
        undetermined_signs(np.zeros(3), np.zeros(2), np.ones(3), 0.0, 0.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="one length"):
        scaled(np.ones(3), np.ones(2), np.zeros(3), np.ones(3), np.ones(3), 1.0, 1.0)
