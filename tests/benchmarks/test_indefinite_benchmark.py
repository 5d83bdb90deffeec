"""The study of indefinite kernels: its correction of p-values, its paired tests, its routes on a few seeds."""

import numpy as np
import pytest
from scipy.stats import wilcoxon

from benchmarks.quantum import indefinite_kernels as study
from dualflow.core.psd import examine


def test_holm_by_hand():
    """Sorted 0.01, 0.02, 0.03, 0.5 times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.5; never falling, never above 1."""
    np.testing.assert_allclose(study.holm(np.array([0.03, 0.01, 0.5, 0.02])), [0.06, 0.04, 0.5, 0.06])
    np.testing.assert_allclose(study.holm(np.array([0.9, 0.8])), [1.0, 1.0])


def test_paired_tests_tell_a_shift_from_nothing():
    rng = np.random.default_rng(0)
    base = rng.normal(0.8, 0.05, 20).round(2)
    found = {"a": list(base), "b": list(base - 0.02), "c": list(base)}
    (ab, ac, bc) = study.compared({"case": found})
    p = wilcoxon(np.full(20, 0.02), zero_method="pratt").pvalue
    assert ab == ("case", "a", "b", pytest.approx(0.02), pytest.approx(3 * p))
    assert ac[3:] == (0.0, 1.0)
    assert bc[3] == pytest.approx(-0.02)


def test_new_points_share_the_scaling_of_the_training_points():
    X, y = study.points("blobs", 3)
    assert X.shape == (study.TRAIN + study.TEST, study.QUBITS)
    np.testing.assert_allclose(X[: study.TRAIN].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(X[: study.TRAIN].std(axis=0), 1.0)
    assert set(y) == {-1.0, 1.0}


@pytest.mark.parametrize("kernel", study.KERNELS)
def test_every_route_gives_an_accuracy_on_an_indefinite_matrix(kernel):
    found, smallest, changes = study.cell(kernel, "classification", 2, evolves=False)
    routes = ["clip", "flip", "shift", "raw, working-set"]
    assert list(found) == routes + (["exact"] if kernel == "fidelity" else [])
    assert all(0.5 < rate <= 1 for rates in found.values() for rate in rates)
    K, columns, exact = study.matrices(kernel, study.points("classification", 0)[0], 0)
    assert columns.shape == (study.TEST, study.TRAIN)
    assert examine(K).smallest_eigenvalue == smallest[0] < 0
    assert min(changes) > 0
    assert exact is None or np.abs(exact[: study.TRAIN] - K).max() < 5 * 0.5 / np.sqrt(study.SHOTS)
