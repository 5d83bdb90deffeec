"""Clip, flip and shift: against numpy's eigenvalues by hand, for new points too, and as rows of a comparison."""

import numpy as np
import pytest
from sklearn import svm

import dualflow
from dualflow import SVC, Gram, ProblemError, certify, compare, problems, repair, solve
from dualflow.core.psd import REPAIRS, examine


def indefinite(n=30, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return 0.5 * (A + A.T)


def sigmoid(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] * X[:, 1] > 0, 1, -1)


BY_HAND = {"clip": lambda w: np.maximum(w, 0), "flip": np.abs, "shift": lambda w: w - w.min()}


@pytest.mark.parametrize("method", REPAIRS)
def test_the_spectrum_is_mended_as_by_hand(method):
    K = indefinite()
    before = K.copy()
    mended = repair(K, method)
    eigenvalues, V = np.linalg.eigh(K)
    expected = V @ np.diag(BY_HAND[method](eigenvalues)) @ V.T
    np.testing.assert_allclose(mended.matrix, expected, atol=1e-12)
    assert (mended.matrix == mended.matrix.T).all()
    assert examine(mended.matrix).is_psd
    assert mended.change == pytest.approx(np.linalg.norm(expected - K), rel=1e-12)
    assert mended.relative_change == pytest.approx(np.linalg.norm(expected - K) / np.linalg.norm(K), rel=1e-12)
    assert mended.smallest_eigenvalue == pytest.approx(eigenvalues[0], rel=1e-12)
    assert mended.negative_eigenvalues == (eigenvalues < 0).sum() > 5
    np.testing.assert_array_equal(K, before)
    assert str(mended).startswith(f"{method}: {mended.negative_eigenvalues} negative")


@pytest.mark.parametrize("method", ["clip", "flip"])
def test_a_training_point_seen_again_gets_its_row_of_the_repaired_matrix(method):
    K = indefinite()
    mended = repair(K, method)
    np.testing.assert_allclose(mended.transform(K), mended.matrix, atol=1e-12)
    eigenvalues, V = np.linalg.eigh(K)
    by_hand = V @ np.diag(BY_HAND[method](eigenvalues) / eigenvalues) @ V.T
    new = np.random.default_rng(1).normal(size=(7, 30))
    np.testing.assert_allclose(mended.transform(new), new @ by_hand, atol=1e-11)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("power", [-300, -200, 200, 300])
@pytest.mark.parametrize("method", REPAIRS)
def test_no_scale_is_too_small_or_too_large(method, power):
    unit = 10.0**power
    plain, mended = repair(indefinite(), method), repair(indefinite() * unit, method)
    np.testing.assert_allclose(mended.matrix / unit, plain.matrix, atol=1e-12)
    assert mended.change / unit == pytest.approx(plain.change, rel=1e-12)
    assert mended.relative_change == pytest.approx(plain.relative_change, rel=1e-12)
    assert mended.smallest_eigenvalue / unit == pytest.approx(plain.smallest_eigenvalue, rel=1e-12)
    assert mended.negative_eigenvalues == plain.negative_eigenvalues


@pytest.mark.filterwarnings("error")
def test_a_spectrum_is_looked_at_whatever_its_scale():
    for unit in (1e-300, 1e300, 4e307):
        evidence = examine(unit * np.array([[1.0, 2.0], [2.0, 1.0]]))
        assert evidence.kind == "indefinite"
        assert evidence.smallest_eigenvalue / unit == pytest.approx(-1.0)


def test_shift_changes_the_diagonal_and_no_new_point():
    K = indefinite()
    mended = repair(K, "shift")
    off = ~np.eye(30, dtype=bool)
    assert (mended.matrix[off] == K[off]).all()
    assert mended.map is None
    np.testing.assert_array_equal(mended.transform(K), K)


@pytest.mark.parametrize("method", REPAIRS)
@pytest.mark.parametrize(
    "K", [np.ones((6, 6)), np.zeros((3, 3)), Gram(np.random.default_rng(0).normal(size=(9, 2))).full()]
)
def test_what_is_positive_semidefinite_stays_to_the_bit(method, K):
    mended = repair(K, method)
    assert (mended.matrix == K).all()
    assert mended.change == mended.relative_change == mended.negative_eigenvalues == 0
    np.testing.assert_array_equal(mended.transform(K), K)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: repair(np.eye(3), "clp"), "method='clp' is not one of 'clip', 'flip', 'shift'"),
        (lambda: repair(np.eye(3), ["clip"]), r"method=\['clip'\] is not one of"),
        (lambda: repair(np.ones((2, 3))), "must be square"),
        (lambda: repair([[0.0, 1.0], [2.0, 0.0]]), "not symmetric"),
        (lambda: repair([[np.nan]]), "K contains NaN"),
        (lambda: repair(np.eye(3)).transform(np.ones((2, 4))), "K_new has 4 columns; the repaired matrix has 3 points"),
    ],
)
def test_refusals_name_the_argument(call, words):
    with pytest.raises(ProblemError, match=words):
        call()


@pytest.mark.parametrize("method", REPAIRS)
def test_estimators_fit_and_predict_on_a_repaired_kernel(method):
    X, y = sigmoid(120)
    gram = Gram(X[:60], "sigmoid", gamma=1.0, coef0=0.5)
    assert examine(gram.full()).kind == "indefinite"
    mended = repair(gram.full(), method)
    new = mended.transform(gram.cross(X[60:], np.arange(60)))
    ours = SVC(C=2.0, kernel="precomputed").fit(mended.matrix, y[:60])
    assert ours.certificate_.relative_gap <= 1e-6
    peer = svm.SVC(C=2.0, kernel="precomputed", tol=1e-10).fit(mended.matrix, y[:60])
    np.testing.assert_allclose(ours.decision_function(new), peer.decision_function(new), atol=1e-5)


# --- what is said of an indefinite problem ---------------------------------------------------------------


def test_stationarity_is_zero_at_a_kkt_point_and_not_elsewhere():
    """On f = −½(α₁² + α₂²) over the unit box the vertex (1, 1) is the optimum, and the maximum at 0 stationary too."""
    Q = -np.eye(2)
    problem = dualflow.DualProblem(
        Gram.precomputed(Q), p=np.zeros(2), lower=np.zeros(2), upper=np.ones(2), sigma=[1, 1]
    )
    assert certify(problem, [1.0, 1.0]).stationarity == 0.0
    assert certify(problem, [0.0, 0.0]).stationarity == 0.0
    assert certify(problem, [0.25, 1.0]).stationarity == pytest.approx(0.25)  # −∇f = α, and 0.75 is left to the bound
    certificate = certify(problem, [0.25, 1.0])
    assert certificate.gap is None
    assert "indefinite: no bound" in str(certificate)
    assert "stationary to 0.25" in str(certificate)


def test_stationarity_counts_the_equality_and_is_left_out_where_a_gap_is():
    X, y = sigmoid()
    problem = problems.svc(Gram(X, "sigmoid", gamma=1.0), y, 1.0)
    rest = solve(problem, "smo", max_steps=10_000)
    assert rest.certificate.stationarity < 1e-3
    assert certify(problem, np.full(60, 0.5)).stationarity > 0.1
    assert solve(problems.svc(Gram(X), y), "smo").certificate.stationarity is None


# --- rows of a comparison --------------------------------------------------------------------------------


def compared(**options):
    X, y = sigmoid(90)
    return compare(X, y, "hinge", ["smo", "cvxopt"], max_n=40, kernel="sigmoid", gamma=2.0, coef0=1.0, **options)


def test_an_indefinite_section_has_the_raw_kernel_beside_every_repair():
    found = compared()
    raw, *repaired, barred = found.rows
    assert (raw.solver, raw.repair, raw.raw_gap, raw.rank) == ("smo", None, None, None)
    assert (barred.solver, barred.status) == ("cvxopt", "DOES NOT APPLY")
    assert [row.repair for row in repaired] == list(REPAIRS)
    for row in repaired:
        assert row.role == "repair"
        assert row.rank is None
        assert row.refined_gap is None or row.refined_gap <= 1e-9
        assert row.raw_gap <= 1e-6
        assert row.variant == f"repair: {row.repair}"
        assert "not ranked" in row.note
        assert "stationarity" in row.note
    best = min(row.raw_objective for row in (raw, *repaired))
    for row in (raw, *repaired):
        assert row.excess == pytest.approx((row.raw_objective - best) / abs(best), abs=1e-12)
    (section,) = found.sections
    assert f"best known objective {best:.8g}" in section.reference_note
    assert "repair: clip" in found.table(160)
    assert [len(compared(repairs=wanted).rows) for wanted in (None, (), "flip", ["clip", "clip"])] == [2, 2, 3, 3]


@pytest.mark.parametrize("method", REPAIRS)
def test_a_row_of_a_repair_is_what_one_gets_by_hand(method):
    row = next(row for row in compared().rows if row.repair == method)
    (raw,) = (row for row in compared().rows if row.solver == "smo")
    gram = raw.solution.problem.gram
    X, y = sigmoid(90)
    mended = repair(gram.full(), method)
    peer = svm.SVC(C=1.0, kernel="precomputed", tol=1e-10).fit(mended.matrix, raw.solution.problem.sigma)
    trained = (X[:, None] == gram.X).all(axis=2).any(axis=1)
    right = peer.predict(mended.transform(gram.cross(X[~trained], np.arange(gram.n)))) == y[~trained]
    assert row.accuracy == pytest.approx(right.mean())
    objective = raw.solution.problem.objective(row.solution.raw_certificate.alpha)
    assert row.raw_objective == pytest.approx(objective, rel=1e-9)


def test_the_box_without_bias_is_compared_too():
    (raw, *repaired, _) = compared(fit_intercept=False).rows
    problem = raw.solution.problem
    assert problem.e is None
    for row in repaired:
        mended = repair(problem.gram.full(), row.repair)
        best = solve(problems.svc(Gram.precomputed(mended.matrix), problem.sigma, fit_intercept=False), "cvxopt")
        assert row.solution.certificate.objective == pytest.approx(best.certificate.objective, rel=1e-6)


def test_evolution_on_the_raw_kernel_stands_beside_every_repair():
    X, y = sigmoid(90)
    options = {"max_n": 40, "kernel": "sigmoid", "gamma": 2.0, "coef0": 1.0, "fit_intercept": "penalised"}
    rows = compare(X, y, "hinge", ["evolution-strategy"], **options).rows
    assert [(row.solver, row.repair) for row in rows] == [
        ("evolution-strategy", None),
        *(("working-set", method) for method in REPAIRS),
    ]
    assert rows[0].excess == 0.0
    assert rows[0].solution.certificate.stationarity < 1e-6
    for row in rows[1:]:
        assert row.raw_gap <= 1e-6
        assert row.accuracy is not None


def test_a_positive_semidefinite_section_has_none_of_that():
    X, y = sigmoid(60)
    found = compare(X, y, "hinge", ["smo"], max_n=30)
    assert [row.role for row in found.rows] == ["classical"]
    assert found.settings["repairs of indefinite kernels"] is None


def test_a_given_matrix_is_compared_as_its_kernel_is():
    X, y = sigmoid(80)
    K = Gram(X, "sigmoid", gamma=2.0, coef0=1.0).full()
    options = {"problems": ("hinge", "svdd"), "solvers": ["smo"], "max_n": 40}
    by_kernel = compare(X, y, kernel="sigmoid", gamma=2.0, coef0=1.0, **options).rows
    given = compare(K, y, kernel="precomputed", **options).rows
    again = compare(K, y, kernel="precomputed", X_test=K, y_test=y, **options).rows
    assert len(given) == len(by_kernel) == len(again) == 8
    for one, other in zip(by_kernel, given, strict=True):
        assert one.raw_objective == pytest.approx(other.raw_objective, rel=1e-9)
        assert other.accuracy == (None if one.problem == "svdd" else one.accuracy)
    assert again[0].accuracy is not None
