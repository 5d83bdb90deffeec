"""Sparse points: each part of a kernel matrix equals that of the dense points to 1e-12."""

import copy
import pickle
from itertools import product

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

import dualflow
from dualflow import LSSVC, SVC, SVDD, SVR, Gram, OneClassSVM, ProblemError
from dualflow.core.digest import fingerprint
from dualflow.core.kernel_cache import KeptGram
from dualflow.core.sparse_points import SparsePoints
from dualflow.core.thin_kernel import is_thin, thin_block, thin_product
from dualflow.core.workspace import Workspace, isolated_copy
from dualflow.refinement import linear_systems
from dualflow.refinement.linear_systems import ConjugateSystem
from tests.combinations import covering

#: Few words of many, held without zeros; and a table with zeros, small enough to be held with them.
WORDS = scipy.sparse.random(120, 4000, density=0.005, format="csr", random_state=0)
TABLE = scipy.sparse.random(60, 20, density=0.3, format="csr", random_state=1)
NEW = scipy.sparse.random(30, 4000, density=0.01, format="coo", random_state=2)
#: More of the pairs share coordinates: not thin.
CROWDED = scipy.sparse.hstack([WORDS, scipy.sparse.random(120, 60, density=0.4, random_state=3)], format="csr")
#: A coordinate that no point lacks, far from the origin.
FAR = scipy.sparse.hstack([WORDS, 1e6 + np.random.default_rng(4).random((120, 1))], format="csr")

KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf"},
    "narrow rbf": {"kernel": "rbf", "gamma": 3.0},
    "rbf from differences": {"kernel": "rbf", "gamma": 1e9},
    "poly": {"kernel": "poly", "coef0": 1.0},
    "poly of degree 1": {"kernel": "poly", "degree": 1, "coef0": 0.5},
    "homogeneous poly": {"kernel": "poly", "degree": 2},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.1, "coef0": -0.2},
    "callable": {"kernel": lambda A, B: A @ B.T},
}


def assert_close(found, wanted, tolerance=1e-12):
    size = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * size)


@pytest.mark.parametrize(
    ("points", "options", "form"),
    covering([WORDS, TABLE, CROWDED, FAR], list(KERNELS.values()), [lambda gram: gram, KeptGram]),
    ids=["-".join(names) for names in product(["words", "table", "crowded", "far"], KERNELS, ["value", "kept"])],
)
def test_every_piece_is_that_of_the_dense_points(points, options, form):
    sparse, dense = form(Gram(points, **options)), Gram(points.toarray(), **options)
    n, rng = dense.n, np.random.default_rng(0)
    J, rows, v = np.array([3, 1, 4]), np.array([5, 9, 2, 6]), rng.standard_normal(n)
    few = np.where(np.arange(n) < 7, v, 0.0)
    new = points[:12][::-1] * 0.5
    assert sparse.n == n
    assert sparse.gamma == pytest.approx(dense.gamma, rel=1e-13)
    assert_close(sparse.full(), dense.full())
    assert_close(sparse.diag(), dense.diag())
    assert_close(sparse.rows(J), dense.rows(J))
    assert_close(sparse.rows(J, np.float32), dense.rows(J), 1e-4)
    assert_close(sparse.columns(J), dense.columns(J))
    assert_close(sparse.block(rows, J), dense.block(rows, J))
    assert_close(np.triu(sparse.upper_block(rows)), np.triu(dense.block(rows, rows)))
    for weights in (v, few, np.zeros(n)):
        assert_close(sparse.matvec(weights), dense.matvec(weights))
        assert_close(sparse.matvec(weights, rows), dense.matvec(weights, rows))
    out = np.empty((3, n))
    assert sparse.rows(J, float, out) is out
    assert_close(out, dense.rows(J))
    weights = rng.standard_normal((n, 2))
    for given in (new, new.tocsc(), new.toarray()):
        assert_close(sparse.cross(given, J), dense.cross(new.toarray(), J))
        assert_close(dense.cross(given, J), dense.cross(new.toarray(), J))
        assert_close(
            sparse.expand(given, np.arange(n), weights), dense.expand(new.toarray(), np.arange(n), weights), 3e-12
        )
        assert_close(sparse.self_kernel(given), dense.self_kernel(new.toarray()))
    if isinstance(sparse, Gram):
        assert_close(sparse.subset(J).full(), dense.subset(J).full())
    else:
        assert_close(sparse.sum_rows(J, v[J], float), dense.rows(J).T @ v[J])
        assert_close(sparse.kept_row(2), dense.rows([2])[0])
        assert_close(sparse.subset(rows).full(), dense.subset(rows).full())
    if isinstance(sparse, Gram) and sparse.is_translatable:
        # A centre that leaves zeros where they are is another one, and nothing to weights whose sum is 0.
        v -= v.mean()
        assert_close(v @ sparse.centred().matvec(v), v @ dense.centred().matvec(v))


def test_against_scikit_learn():
    gram = Gram(WORDS, gamma=0.7)
    assert_close(gram.full(), rbf_kernel(WORDS, gamma=0.7))
    cross = Gram(WORDS, "poly", gamma=0.7, degree=3, coef0=0.3).cross(NEW, np.arange(120))
    assert_close(cross, polynomial_kernel(NEW, WORDS, degree=3, gamma=0.7, coef0=0.3))


def test_points_are_held_with_zeros_where_that_is_small_or_affordable_and_fast():
    assert isinstance(Gram(WORDS).X, SparsePoints)
    assert isinstance(Gram(TABLE).X, np.ndarray)
    half = scipy.sparse.random(600, 600, density=0.5, random_state=0)
    assert isinstance(Gram(half).X, np.ndarray)
    assert all(Gram(X).came_sparse for X in (WORDS, TABLE, half))
    assert not Gram(TABLE.toarray()).came_sparse
    assert Gram.of(Gram(TABLE), TABLE).came_sparse


def test_what_would_never_fit_with_its_zeros():
    rng = np.random.default_rng(0)
    columns = np.where(rng.random((300, 20)) < 0.5, rng.integers(10**7, size=(300, 20)), np.arange(20))  # of 24 GB
    wide = scipy.sparse.csr_matrix((rng.random(6000), (np.repeat(np.arange(300), 20), columns.ravel())), (300, 10**7))
    gram = Gram(wide, "linear")
    assert_close(gram.full(), (wide @ wide.T).toarray())
    assert_close(gram.matvec(np.ones(300)), np.asarray((wide @ wide.T).sum(axis=1)).ravel())


# --- what is given ---------------------------------------------------------------------------------


def messy():
    """WORDS with entries in parts, out of order and with zeros written out, of int64 indices, read-only."""
    rows, half = WORDS.copy(), WORDS.copy()
    half.data *= 0.5
    both = scipy.sparse.csr_matrix(WORDS.shape)
    indptr, indices, data = [0], [], []
    for i in range(WORDS.shape[0]):
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        where = [*rows.indices[part][::-1], *half.indices[part], 3999 if 3999 not in rows.indices[part] else 3998]
        indices += where
        data += [*half.data[part][::-1], *half.data[part], 0.0]
        indptr.append(len(indices))
    both.data = np.array(data)
    both.indices, both.indptr = np.array(indices, dtype=np.int64), np.array(indptr, dtype=np.int64)
    for array in (both.data, both.indices, both.indptr):
        array.flags.writeable = False
    return both


FORMS = {
    "csr_array": scipy.sparse.csr_array,
    "csc_matrix": scipy.sparse.csc_matrix,
    "coo_array": scipy.sparse.coo_array,
    "lil_matrix": scipy.sparse.lil_matrix,
    "dok_array": scipy.sparse.dok_array,
    "bsr_matrix": scipy.sparse.bsr_matrix,
    "messy": lambda X: messy(),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_the_same_points_is_the_same_gram(form):
    given = form(WORDS)
    before = copy.deepcopy(given)
    gram = Gram(given)
    np.testing.assert_allclose(gram.X.toarray(), WORDS.toarray(), rtol=1e-15, atol=0)
    assert len(gram.X.data) == WORDS.nnz
    assert (np.diff(gram.X.indices)[np.diff(np.repeat(np.arange(120), np.diff(gram.X.indptr))) == 0] > 0).all()
    for name in ("data", "indices", "indptr"):
        if hasattr(given, name):
            np.testing.assert_array_equal(getattr(given, name), getattr(before, name))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_other_numbers_become_float64(dtype):
    given = (WORDS * 4).astype(dtype)
    assert Gram(given).X.dtype == np.float64
    assert_close(Gram(given, gamma=0.1).full(), Gram(given.toarray().astype(float), gamma=0.1).full())


def test_the_callers_arrays_are_not_kept():
    given = WORDS.copy()
    gram = Gram(given)
    before = gram.full()
    given.data[:] = 7.0
    np.testing.assert_array_equal(gram.full(), before)
    taken = gram.X.tocsr()
    taken.data[:] = 7.0
    np.testing.assert_array_equal(gram.full(), before)


def test_a_value_cannot_be_written_to():
    points = Gram(WORDS).X
    with pytest.raises(AttributeError, match="value"):
        points.data = points.data
    for array in (points.data, points.indices, points.indptr):
        with pytest.raises(ValueError, match=r"WRITEABLE|read-only"):
            array.flags.writeable = True
    for other in (pickle.loads(pickle.dumps(points)), copy.deepcopy(points)):
        np.testing.assert_array_equal(other.toarray(), points.toarray())
        assert not other.data.flags.writeable


def test_a_solvers_twin_shares_no_object_of_the_problem():
    problem = dualflow.problems.svc(Gram(WORDS), np.where(np.arange(120) % 2, 1, -1))
    other = isolated_copy(problem)
    assert other.gram.X is not problem.gram.X
    np.testing.assert_array_equal(other.gram.full(), problem.gram.full())


WITH_NAN = WORDS.copy()
WITH_NAN.data[3] = np.nan
LARGE = scipy.sparse.coo_array((np.full(2, 1.5e308), ([0, 0], [1, 1])), shape=(4, 500))  # sums to infinity
BAD = {
    "nan": (WITH_NAN, {}, ProblemError, "X contains NaN"),
    "infinite sum": (LARGE, {}, ProblemError, "X contains NaN or infinity"),
    "squares overflow": (WORDS * 1e200, {}, ProblemError, "overflow.*scale the features"),
    "complex": (WORDS * 1j, {}, ProblemError, "X is complex"),
    "no rows": (WORDS[:0], {}, ProblemError, "non-empty matrix"),
    "precomputed": (WORDS @ WORDS.T, {"kernel": "precomputed"}, TypeError, r"K is sparse.*K.toarray\(\)"),
    "center": (WORDS, {"kernel": "linear", "center": np.ones(4000)}, ProblemError, r"center: .*X.toarray\(\)"),
    "negative base": (
        WORDS * -1 + scipy.sparse.random(120, 4000, density=0.01, random_state=9),
        {"kernel": "poly", "degree": 2.5},
        ProblemError,
        "degree=2.5",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_points_are_errors_that_say_what_is_wrong(case):
    points, options, error, message = BAD[case]
    with np.errstate(over="ignore"), pytest.raises(error, match=message):
        Gram(points, **options)


def spoilt(form, **parts):
    """A sparse array of shape (30, 20) of a format, with some index arrays written over."""
    points = scipy.sparse.random_array((30, 20), density=0.3, random_state=np.random.default_rng(4), format=form)
    for name, (place, value) in parts.items():
        getattr(points, name)[place] = value
    return points


SPOILT = {
    "CSR, too large": (spoilt("csr", indices=(5, 20)), "a column index of the sparse matrix is 20, .* from 0 to 19"),
    "CSR, negative": (spoilt("csr", indices=(5, -1)), "a column index of the sparse matrix is -1"),
    "CSR, falls": (spoilt("csr", indptr=(3, 0)), "indptr .* must hold 31 numbers that rise from 0"),
    "CSR, begins late": (spoilt("csr", indptr=(0, 1)), "indptr .* must hold 31 numbers that rise from 0"),
    "CSR, ends late": (spoilt("csr", indptr=(-1, 999)), "indptr of the sparse matrix ends at 999"),
    "CSC, too large": (spoilt("csc", indices=(5, 30)), "a row index of the sparse matrix is 30, .* from 0 to 29"),
    "CSC, negative": (spoilt("csc", indices=(5, -2)), "a row index of the sparse matrix is -2"),
    "CSC, falls": (spoilt("csc", indptr=(3, 0)), "indptr .* must hold 21 numbers that rise from 0"),
    "BSR, too large": (spoilt("bsr", indices=(0, 20)), "a column index of the sparse matrix is 20"),
    "COO, too large": (spoilt("coo", col=(0, 20)), "a column index of the sparse matrix is 20"),
    "COO, negative": (spoilt("coo", row=(0, -1)), "a row index of the sparse matrix is -1"),
}
GOOD = spoilt("csr")
LABELS = np.arange(30) % 2


@pytest.mark.parametrize(
    "use",
    [
        lambda bad: Gram(bad, "linear"),
        lambda bad: Gram(bad, lambda A, B: (A @ B.T).toarray()),
        lambda bad: SVC().fit(bad, LABELS),
        lambda bad: SVR().fit(bad, LABELS),
        lambda bad: SVDD().fit(bad),
        lambda bad: OneClassSVM().fit(bad),
        lambda bad: LSSVC().fit(bad, LABELS),
        lambda bad: SVC().fit(GOOD, LABELS).predict(bad),
        lambda bad: Gram(GOOD, "linear").cross(bad),
    ],
    ids=["Gram", "callable", "SVC", "SVR", "SVDD", "OneClassSVM", "LSSVC", "predict", "cross"],
)
@pytest.mark.parametrize("case", SPOILT)
def test_index_arrays_that_lead_out_of_the_matrix_are_refused(case, use):
    bad, message = SPOILT[case]
    with pytest.raises(ProblemError, match=f"X: {message}"):
        use(bad)


def test_indices_in_any_order_and_twice_are_summed_whatever_scipy_remembers():
    points = spoilt("csr")
    assert points.has_canonical_format
    start, stop = points.indptr[:2]
    points.indices[start:stop] = points.indices[start:stop][::-1].copy()
    points.indices[start + 1] = points.indices[start]
    rows = np.repeat(np.arange(30), np.diff(points.indptr))
    dense = np.zeros((30, 20))
    np.add.at(dense, (rows, points.indices), points.data)
    np.testing.assert_allclose(Gram(points, "linear").full(), dense @ dense.T, rtol=1e-13)
    np.testing.assert_allclose(
        SVC().fit(points, LABELS).decision_function(GOOD),
        SVC().fit(dense, LABELS).decision_function(GOOD.toarray()),
        rtol=1e-9,
    )


def test_no_entry_at_all():
    gram = Gram(scipy.sparse.csr_array((30, 20000)), gamma=0.5)
    assert isinstance(gram.X, SparsePoints)
    np.testing.assert_array_equal(gram.full(), np.ones((30, 30)))
    np.testing.assert_array_equal(gram.matvec(np.ones(30)), np.full(30, 30.0))


def test_a_callable_is_given_csr_and_may_return_it():
    seen = []

    def kernel(A, B):
        seen.append((A.format, B.format))
        A.data[:] += 0.0  # copies, which may be written to
        return A @ B.T

    gram = Gram(TABLE, kernel)
    assert_close(gram.full(), (TABLE @ TABLE.T).toarray())
    assert set(seen) == {("csr", "csr")}


def test_checkpoints_know_their_points():
    y = np.where(np.arange(120) % 2, 1, -1)
    other = WORDS.copy()
    other.data[0] += 1e-9
    moved = WORDS.copy()
    moved.indices[:2] = moved.indices[:2] + 1
    prints = {fingerprint(dualflow.problems.svc(Gram(X, "linear"), y)) for X in (WORDS, WORDS, other, moved)}
    assert len(prints) == 3


# --- thin kernels, and systems without a factor ----------------------------------------------------


@pytest.mark.parametrize("options", [o for name, o in KERNELS.items() if name not in ("callable",)], ids=str)
def test_a_thin_kernel_is_the_kernel(options):
    gram = Gram(WORDS, **options)
    if options.get("gamma") == 1e9:
        assert not is_thin(gram)
        return
    assert is_thin(gram)
    assert not is_thin(Gram(WORDS.toarray(), **options))
    K, rows, J = gram.full(), np.arange(50), np.arange(20, 120)
    v = np.random.default_rng(1).standard_normal(120)
    assert_close(thin_product(gram, v, rows, J), K[np.ix_(rows, J)] @ v[J])
    if options["kernel"] != "linear":
        assert_close(thin_block(gram, rows, J) @ v[J], K[np.ix_(rows, J)] @ v[J])


def test_what_is_not_thin():
    crowded = Gram(scipy.sparse.random(80, 40000, density=0.01, random_state=0), gamma=60.0)
    assert crowded.reach > 50
    assert not is_thin(crowded)
    assert not is_thin(Gram(CROWDED, "rbf"))
    assert is_thin(Gram(CROWDED, "linear"))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_steps_of_conjugate_gradients_are_newtons(kernel, missing):
    y = np.where(np.random.default_rng(0).random(120) < 0.4, 1.0, -1.0)
    work = Workspace(dualflow.problems.svc(Gram(WORDS, kernel), y))
    free, held = np.arange(10, 110), np.array([3, 50])
    system = ConjugateSystem(work, free, 1.0)
    system.hold(held)
    h = np.random.default_rng(1).standard_normal(100)
    step = system.step(h, missing)
    live = np.setdiff1d(np.arange(100), held)
    Q, e = work.dense()[np.ix_(free, free)], y[free]
    KKT = np.block([[Q[np.ix_(live, live)], e[live, None]], [e[None, live], np.zeros((1, 1))]])
    wanted = np.linalg.solve(KKT, np.append(-h[live], missing))[:-1]
    assert not system.struggled
    assert not step[held].any()
    np.testing.assert_allclose(step[live], wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())
    assert float(e @ step) == pytest.approx(missing, abs=1e-10)
    np.testing.assert_allclose(system.product(step), Q @ step, rtol=0, atol=1e-12 * np.abs(Q @ step).max())


@pytest.mark.parametrize("model", ["svc", "svc without a bias", "svr", "svdd"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_refinement_without_a_factor_ends_where_one_with_it_does(model, kernel, monkeypatch):
    y = np.where(np.random.default_rng(0).random(120) < 0.4, 1.0, -1.0)
    gram = Gram(WORDS, kernel)
    problem = {
        "svc": lambda: dualflow.problems.svc(gram, y, C=0.7),
        "svc without a bias": lambda: dualflow.problems.svc(gram, y, C=0.7, fit_intercept=False),
        "svr": lambda: dualflow.problems.svr(gram, y + np.arange(120) % 3, C=0.5, epsilon=0.05),
        "svdd": lambda: dualflow.problems.svdd(gram, 0.3),
    }[model]()
    start = dualflow.solve(problem, "gradient-flow", tol=1e-3)
    made = []
    plain = ConjugateSystem.step
    monkeypatch.setattr(ConjugateSystem, "step", lambda self, *a: made.append(1) or plain(self, *a))
    monkeypatch.setattr(linear_systems, "MIN_N_CONJUGATE", 1)
    without = dualflow.solve(problem, "gradient-flow", tol=1e-3, refine=True)
    assert made
    assert start.certificate.relative_gap > 1e-6
    assert without.certificate.relative_gap <= 1e-9
    monkeypatch.setattr(linear_systems, "MIN_N_CONJUGATE", 10**9)
    factorised = dualflow.solve(problem, "gradient-flow", tol=1e-3, refine=True)
    assert without.certificate.objective == pytest.approx(factorised.certificate.objective, rel=1e-9)


def test_a_system_too_ill_conditioned_is_factorised_after_all(monkeypatch):
    rng = np.random.default_rng(0)
    scales = scipy.sparse.diags(10.0 ** rng.uniform(-6, 0, 4000))
    X, y = (WORDS @ scales).tocsr(), np.where(rng.random(120) < 0.4, 1.0, -1.0)
    problem = dualflow.problems.svc(Gram(X, "linear"), y, C=1e6)
    monkeypatch.setattr(linear_systems, "MIN_N_CONJUGATE", 1)
    monkeypatch.setattr(linear_systems, "MAX_PRODUCTS_PER_SOLVE", 3)
    steps = []
    plain = ConjugateSystem.step
    monkeypatch.setattr(ConjugateSystem, "step", lambda self, *a: steps.append(1) or plain(self, *a))
    solution = dualflow.solve(problem, "working-set", refine=True, hand_over=True)
    assert solution.certificate.relative_gap <= 1e-6
