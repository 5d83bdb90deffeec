"""The bandwidth of quantum kernels: a factor of the features, searched, trained, saved; and the repair."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from dualflow import (
    SVC,
    FidelityKernel,
    Gram,
    ProblemError,
    ProjectedKernel,
    Reuploading,
    SolverMismatch,
    concentration,
    load,
    problems,
    solve,
    train_kernel,
)


@pytest.mark.parametrize("kind", [FidelityKernel, ProjectedKernel])
@pytest.mark.parametrize("shots", [None, 100])
def test_a_scale_is_a_factor_of_the_features(kind, shots):
    points = np.random.default_rng(0).normal(size=(12, 2))
    scaled = kind("zz", scale=0.25, shots=shots)
    np.testing.assert_array_equal(scaled(points, points[:5]), kind("zz", shots=shots)(0.25 * points, 0.25 * points[:5]))
    assert "scale=0.25" in repr(scaled)
    found = concentration(kind("zz", scale=0.25), points)
    assert found.variance == concentration(kind("zz"), 0.25 * points).variance
    assert "at scale 0.25" in str(found)


def test_a_trained_kernel_keeps_its_scale():
    points = np.random.default_rng(1).normal(size=(12, 2))
    y = np.sign(points[:, 0])
    kernel = FidelityKernel(Reuploading(layers=1), scale=0.5)
    found = train_kernel(kernel, points, y, steps=3, held_out=0)
    plain = train_kernel(FidelityKernel(Reuploading(layers=1)), 0.5 * points, y, steps=3, held_out=0)
    assert found.kernel.scale == 0.5
    np.testing.assert_array_equal(found.alignment, plain.alignment)


def test_a_grid_search_finds_the_bandwidth_with_C():
    """A grid of kernels in standardised data: at scale 1 the entries of "zz" are near 0, and predictions chance."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 5))
    y = points[:, 0] + points[:, 1] > 0
    kernels = [FidelityKernel("zz", scale=scale) for scale in (1.0, 0.05)]
    search = GridSearchCV(SVC(), {"kernel": kernels, "C": [1.0, 10.0]}, cv=3).fit(points, y)
    assert search.best_params_["kernel"].scale == 0.05
    scores = {
        params["kernel"].scale: score
        for params, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
    }
    assert scores[0.05] > scores[1.0] + 0.15


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, "wide", True])
def test_a_bad_scale_is_named(scale):
    with pytest.raises(ProblemError, match="scale"):
        FidelityKernel("zz", scale=scale)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a sampled matrix is indefinite
def test_a_saved_model_keeps_the_scale(tmp_path):
    points = np.random.default_rng(2).normal(size=(20, 2))
    model = SVC(kernel=FidelityKernel("zz", scale=0.3, shots=200)).fit(points, points[:, 0] > 0)
    model.save(tmp_path / "model.dualflow")
    loaded = load(tmp_path / "model.dualflow")
    assert loaded.kernel.scale == 0.3
    np.testing.assert_array_equal(loaded.decision_function(points), model.decision_function(points))


@pytest.mark.filterwarnings("ignore::dualflow.exceptions.ConcentrationWarning")
def test_an_indefinite_sampled_matrix_names_the_repair():
    points = np.random.default_rng(3).normal(size=(20, 2))
    kernel = FidelityKernel("zz", shots=20)
    with pytest.warns(ConvergenceWarning, match=r"indefinite.*dualflow\.repair"):
        SVC(kernel=kernel).fit(points, points[:, 0] > 0)
    K = kernel(points, points)
    problem = problems.svc(Gram.precomputed(K), np.where(points[:, 0] > 0, 1, -1))
    with pytest.raises(SolverMismatch, match=r"dualflow\.repair"):
        solve(problem, "cvxopt")
