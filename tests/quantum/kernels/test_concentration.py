"""Concentration: the spread of a kernel's entries against the noise of its shots."""

import warnings

import numpy as np
import pytest

from dualflow import (
    SVC,
    ConcentrationWarning,
    FidelityKernel,
    ProblemError,
    ProjectedKernel,
    concentration,
)
from dualflow.testing import WrongDevice

RNG = np.random.default_rng(11)
WIDE = RNG.uniform(0, 2 * np.pi, (30, 8))
NARROW = RNG.uniform(-1, 1, (30, 2))


def offdiagonal(K):
    return K[np.triu_indices(len(K), 1)]


def test_of_an_exact_fidelity_kernel_it_is_plain_variance_against_the_binomial_one():
    k = offdiagonal(FidelityKernel("zz")(NARROW, NARROW))
    seen = concentration(FidelityKernel("zz"), np.vstack([NARROW, NARROW[:3]]), shots=50)  # equal points are one
    assert seen.pairs == len(k) == 30 * 29 // 2
    assert seen.mean == pytest.approx(k.mean())
    assert seen.variance == pytest.approx(k.var(ddof=1))
    assert seen.shot_variance == pytest.approx((k * (1 - k)).mean() / 50)
    assert not seen.concentrated
    assert seen.shots_needed == np.ceil((k * (1 - k)).mean() / k.var(ddof=1))
    assert "distinguishable" in str(seen)


def test_deep_wide_circuits_concentrate_and_narrow_ones_do_not():
    spreads = [concentration(FidelityKernel("zz"), WIDE[:, :q]).variance for q in (2, 4, 6, 8)]
    assert (np.diff(np.log(spreads)) < -1).all()  # exponential: each two qubits, at least e times less
    assert concentration(FidelityKernel("zz"), WIDE, shots=100).concentrated
    assert concentration(FidelityKernel("zz"), WIDE, shots=100).shots_needed > 100
    # One-qubit states of so shallow a circuit have not concentrated.
    assert not concentration(ProjectedKernel("zz"), WIDE, shots=100).concentrated


@pytest.mark.parametrize("make", [FidelityKernel, ProjectedKernel])
def test_the_reported_noise_is_that_of_repeated_measurements(make):
    shots, points = 200, NARROW[:12]
    exact = make("zz")
    said = concentration(exact, points, shots=shots).shot_variance
    runs = [offdiagonal(make("zz", shots=shots, random_state=s)(points, points)) for s in range(60)]
    seen = np.var(runs, axis=0, ddof=1).mean()
    # Projected entries: to first order in the noise, and 66 entries share 12 points.
    assert seen == pytest.approx(said, rel=0.15 if make is FidelityKernel else 0.3)


@pytest.mark.parametrize("make", [FidelityKernel, ProjectedKernel])
def test_a_sampled_kernels_spread_is_that_of_the_exact_one(make):
    exact = concentration(make("zz"), NARROW, shots=60)
    sampled = [concentration(make("zz", shots=60, random_state=s), NARROW).variance for s in range(5)]
    assert np.mean(sampled) == pytest.approx(exact.variance, rel=0.25)
    raw = np.mean([offdiagonal(make("zz", shots=60, random_state=s)(NARROW, NARROW)).var(ddof=1) for s in range(5)])
    if make is FidelityKernel:
        assert abs(np.mean(sampled) - exact.variance) < abs(raw - exact.variance)


def test_a_sampled_kernel_that_has_concentrated_warns_once_and_an_exact_one_does_not():
    kernel = FidelityKernel("zz", shots=100)
    with pytest.warns(ConcentrationWarning, match="100 shots leave a noise of .*fitted to noise"):
        kernel(WIDE, WIDE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(WIDE, WIDE)
        FidelityKernel("zz")(WIDE, WIDE)
        FidelityKernel("zz", shots=100)(WIDE[:5], WIDE[:5])  # too few pairs to check
        FidelityKernel("zz", shots=100)(NARROW, NARROW)
        ProjectedKernel("zz", shots=100)(NARROW, NARROW)
    with pytest.warns(ConcentrationWarning):
        ProjectedKernel("zz", shots=2)(WIDE, WIDE)
    with pytest.warns(ConcentrationWarning, match="dualflow.concentration"):
        FidelityKernel("zz", device="null", shots=200)(NARROW, NARROW)  # only noise


@pytest.mark.parametrize("shots", [1000, None])
def test_identical_entries_have_concentrated(shots):
    """120 entries of 0, with no noise at all, and of an exact device: 0 is not less than 0."""
    kernel = FidelityKernel("zz", device=WrongDevice("angles ignored"), shots=shots)
    points = np.random.default_rng(0).uniform(-1, 1, (16, 3))
    with pytest.warns() as caught:
        K = kernel(points, points)
    assert np.ptp(offdiagonal(K)) < 1e-12
    assert ConcentrationWarning in {w.category for w in caught}


@pytest.mark.parametrize("make", [FidelityKernel, ProjectedKernel])
def test_one_shot_does_not_count_as_noiseless(make):
    with pytest.warns(ConcentrationWarning):
        seen = concentration(make("zz", shots=1), WIDE)
    assert seen.concentrated
    assert seen.shot_variance > 0


def test_a_fit_warns_too():
    y = np.arange(30) % 2
    with pytest.warns() as caught:
        SVC(kernel=FidelityKernel("zz", shots=50)).fit(WIDE, y)
    assert [w.category for w in caught].count(ConcentrationWarning) == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: concentration("rbf", NARROW), TypeError, "found str"),
        (lambda: concentration(FidelityKernel("zz"), NARROW[:2]), ProblemError, "three different points"),
        (lambda: concentration(FidelityKernel("zz"), np.ones((5, 2))), ProblemError, "three different points"),
        (lambda: concentration(FidelityKernel("zz"), NARROW, shots=0), ProblemError, "shots=0"),
        (lambda: concentration(FidelityKernel("zz"), NARROW[0]), ProblemError, "X must be"),
    ],
)
def test_refusals_name_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call()
