"""Blocks of one variable over sparse points: the optimum of the ordinary blocks, without a kernel row."""

import numpy as np
import pytest
import scipy.sparse

from dualflow import SVC, SVR, Gram, Status, problems, solve

RNG = np.random.default_rng(0)
N, M = 600, 3000


def text(n=N, full=0, offset=0.0):
    """Short rows of unit length, ``full`` columns of them with an offset that no row leaves out; labels with noise."""
    X = scipy.sparse.random(n, M, density=0.01, format="csr", random_state=0)
    X = scipy.sparse.diags(1 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X
    noise = np.random.default_rng(1)
    target = X @ noise.normal(size=M)
    if full:
        X = scipy.sparse.hstack([X, scipy.sparse.csr_matrix(offset + noise.uniform(size=(n, full)))])
    return scipy.sparse.csr_array(X), target + 0.3 * noise.normal(size=n) + 0.4


X, TARGET = text()
Y = np.where(TARGET > 0, 1, -1)
WEIGHT = RNG.uniform(0.2, 3.0, N)


def posed(X, y, model):
    gram = Gram(X, "linear")
    return {
        "hinge": lambda: problems.svc(gram, y, C=1.0),
        "large C": lambda: problems.svc(gram, y, C=1e3),
        "weights": lambda: problems.svc(gram, y, C=1.0, sample_weight=WEIGHT),
        "no bias": lambda: problems.svc(gram, y, C=1.0, fit_intercept=False),
        "squared hinge": lambda: problems.svc(gram, y, C=1.0, loss="squared_hinge"),
        "tube": lambda: problems.svr(gram, TARGET, C=1.0, epsilon=0.1),
        "one class": lambda: problems.one_class(gram, nu=0.3),
        "ball": lambda: problems.svdd(gram, nu=0.3),
    }[model]()


MODELS = ["hinge", "large C", "weights", "no bias", "squared hinge", "tube", "one class", "ball"]


@pytest.mark.parametrize("model", MODELS)
def test_sparse_points_are_solved_without_kernel_rows(model):
    problem = posed(X, Y, model)
    found = solve(problem, "working-set", tol=1e-8)
    other = solve(posed(X.toarray(), Y, model), "working-set", tol=1e-9, refine=True)
    assert found.provenance["blocks"] == "coordinates"
    assert found.cost.kernel_columns == 0
    assert found.status is Status.OPTIMAL
    assert found.certificate.relative_gap <= 1e-8
    assert found.certificate.objective == pytest.approx(other.certificate.objective, rel=3e-8)
    assert "blocks" not in other.provenance


def test_bias_is_that_of_a_model_that_does_not_regularise_it():
    points, target = text(1500)
    labels = np.where(target > 0, 1, -1)
    sparse, dense = (SVC(kernel="linear", C=1.0).fit(given, labels) for given in (points, points.toarray()))
    assert sparse.solutions_[0].provenance["blocks"] == "coordinates"
    assert not sparse.solutions_[0].refined
    assert sparse.certificate_.relative_gap <= 1e-8
    np.testing.assert_allclose(sparse.intercept_, dense.intercept_, atol=1e-4)
    np.testing.assert_allclose(sparse.decision_function(points), dense.decision_function(points.toarray()), atol=1e-3)


def test_tube_of_an_estimator_takes_the_same_way():
    model = SVR(kernel="linear", C=1.0, epsilon=0.1).fit(X, TARGET)
    assert model.certificate_.relative_gap <= 1e-8
    assert model.solution_.provenance["blocks"] == "coordinates"


def test_columns_that_no_row_leaves_out_may_lie_far_from_0():
    points, target = text(full=2, offset=1e4)
    problem = problems.svc(Gram(points, "linear"), np.where(target > 0, 1, -1), C=1.0)
    found = solve(problem, "working-set", tol=1e-7)
    assert found.provenance["blocks"] == "coordinates"
    assert found.certificate.relative_gap <= 1e-7


def test_variables_at_their_bounds_are_exactly_there():
    found = solve(posed(X, Y, "hinge"), "working-set", tol=1e-7)
    alpha = found.alpha
    assert abs(Y @ alpha) <= 1e-9
    assert (alpha == 0).sum() + (alpha == 1).sum() >= 50


def test_a_run_stopped_and_resumed_ends_at_the_same_bits(tmp_path):
    problem, file = posed(X, Y, "large C"), tmp_path / "run"
    whole = solve(problem, "working-set", tol=1e-9)
    assert whole.cost.steps >= 3
    solve(problem, "working-set", tol=1e-9, max_steps=2, checkpoint=file)
    resumed = solve(problem, "working-set", tol=1e-9, checkpoint=file)
    np.testing.assert_array_equal(resumed.raw_alpha, whole.raw_alpha)


def test_limits_and_callbacks_hold():
    problem, seen = posed(X, Y, "large C"), []
    stopped = solve(problem, "working-set", tol=1e-9, callback=lambda progress: bool(seen.append(1)) or len(seen) > 2)
    assert stopped.status is Status.STOPPED
    late = solve(problem, "working-set", tol=1e-9, time_limit=1e-9)
    assert late.status is Status.TIME_LIMIT

    def interrupted(progress):
        raise KeyboardInterrupt

    kept = solve(problem, "working-set", tol=1e-9, callback=interrupted, on_interrupt="keep")
    assert kept.status is Status.INTERRUPTED


@pytest.mark.parametrize("option", [{"kkt_tol": 1e-3}, {"max_updates": 50}])
def test_options_of_pairs_go_by_pairs(option):
    assert "blocks" not in solve(posed(X, Y, "hinge"), "working-set", **option).provenance


def test_repeated_points_with_both_labels_come_to_the_end():
    points, labels = scipy.sparse.vstack([X, X, X]), np.concatenate([Y, Y, -Y])
    found = solve(problems.svc(Gram(points, "linear"), labels, C=100.0), "working-set", tol=1e-7)
    assert found.provenance["blocks"] == "coordinates"
    assert found.certificate.relative_gap <= 1e-7
