"""What a callable kernel returns: arrays of any order and type give the model of a C-ordered float64 one; a callable
that contradicts itself is an error."""

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV

from dualflow import (
    LSSVC,
    LSSVR,
    SVC,
    SVDD,
    SVR,
    EcoSVC,
    EcoSVDD,
    Gram,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    ProblemError,
    QuantileSVR,
    SVCSearchCV,
    generalization_report,
    pareto_front,
)
from dualflow.conformal import ConformalSVC, ConformalSVR
from tests.combinations import often

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
Y = (X[:, 0] + 0.5 * rng.standard_normal(40) > 0).astype(int)
Z = X[:, 0] + 0.1 * rng.standard_normal(40)
SIX = np.repeat(np.arange(6), 20)
X6 = rng.standard_normal((120, 3)) + np.eye(6, 3)[SIX]
NEW = rng.standard_normal((7, 3))


def whole_numbers(A, B):
    """Count the thresholds that both points exceed: a positive semidefinite kernel whose values fit any dtype."""
    over = [(P[:, :, None] > np.linspace(-2, 2, 9)).reshape(len(P), -1).astype(float) for P in (A, B)]
    return over[0] @ over[1].T + 1.0


def strided(K):
    room = np.zeros((2 * K.shape[0], 3 * K.shape[1]))
    room[::2, ::3] = K
    return room[::2, ::3]


def locked(K):
    K = K.copy()
    K.flags.writeable = False
    return K


FORMS = {
    "Fortran order": np.asfortranarray,
    "transposed": lambda K: np.ascontiguousarray(K.T).T,
    "strided": strided,
    "reversed": lambda K: np.ascontiguousarray(K[::-1, ::-1])[::-1, ::-1],
    "read-only": locked,
    "float16": lambda K: K.astype(np.float16),
    "float32": lambda K: np.asfortranarray(K.astype(np.float32)),
    "longdouble": lambda K: K.astype(np.longdouble),
    "integers": lambda K: K.astype(np.int64),
    "big-endian": lambda K: K.astype(">f8"),
    "objects": lambda K: K.astype(object),
    "list": lambda K: K.tolist(),
    "matrix": np.asmatrix,
    "frame": pandas.DataFrame,
    "frame of float32": lambda K: pandas.DataFrame(K.astype(np.float32)),
    "CSR": scipy.sparse.csr_matrix,
    "COO": scipy.sparse.coo_array,
}


def of_sparse(kernel):
    """The kernel for points in CSR arrays."""
    return lambda A, B: kernel(A.toarray(), B.toarray())


def scores(model, new):
    """Return a model's predictions for new points."""
    for name in ("decision_function", "predict_interval", "predict_set"):
        if hasattr(model, name):
            return np.asarray(getattr(model, name)(new), dtype=float)
    return np.asarray(model.predict(new), dtype=float)


CASES = {
    "SVC": lambda k: SVC(kernel=k).fit(X, Y),
    "SVC, squared hinge": lambda k: SVC(kernel=k, loss="squared_hinge").fit(X, Y),
    "SVC, no intercept": lambda k: SVC(kernel=k, fit_intercept=False).fit(X, Y),
    "SVC, weights": lambda k: SVC(kernel=k).fit(X, Y, 1.0 + np.arange(40) % 3),
    "SVC, six classes": lambda k: SVC(kernel=k).fit(X6, SIX),
    "SVC, another solver": lambda k: SVC(kernel=k, solver="smo").fit(X, Y),
    "SVDD": lambda k: SVDD(kernel=k, nu=0.2).fit(X),
    "OneClassSVM": lambda k: OneClassSVM(kernel=k, nu=0.3).fit(X),
    "SVR": lambda k: SVR(kernel=k).fit(X, Z),
    "SVR, larger": lambda k: SVR(kernel=k).fit(X6, X6[:, 0]),
    "NuSVC": lambda k: NuSVC(kernel=k, nu=0.3).fit(X, Y),
    "NuSVR": lambda k: NuSVR(kernel=k).fit(X, Z),
    "QuantileSVR": lambda k: QuantileSVR([0.1, 0.9], kernel=k).fit(X, Z),
    "LSSVC": lambda k: LSSVC(kernel=k).fit(X, Y),
    "LSSVR": lambda k: LSSVR(kernel=k).fit(X, Z),
    "EcoSVC": lambda k: EcoSVC(kernel=k).fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:]),
    "EcoSVDD": lambda k: EcoSVDD(kernel=k, nu=0.2).fit(X[:30]).partial_fit(X[30:]),
    "IncrementalSVC": lambda k: IncrementalSVC(kernel=k).fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:]),
    "IncrementalSVDD": lambda k: IncrementalSVDD(kernel=k, nu=0.2).fit(X[:30]).partial_fit(X[30:]),
    "IncrementalSVR": lambda k: IncrementalSVR(kernel=k).fit(X[:30], Z[:30]).partial_fit(X[30:], Z[30:]),
    "ConformalSVC": lambda k: ConformalSVC(SVC(kernel=k), cv=3).fit(X, Y),
    "ConformalSVR": lambda k: ConformalSVR(SVR(kernel=k), cv=3).fit(X, Z),
    "SVC, sparse X": lambda k: SVC(kernel=of_sparse(k)).fit(scipy.sparse.csr_array(X), Y),
    "SVCSearchCV": lambda k: SVCSearchCV(SVC(kernel=k), {"C": [0.1, 1.0]}, cv=2).fit(X, Y),
    "GridSearchCV": lambda k: GridSearchCV(SVC(kernel=k), {"C": [0.1, 1.0]}, cv=2).fit(X, Y),
}


@pytest.fixture(scope="module")
def plain():
    """The scores of each case for a C-ordered float64 kernel, computed once."""
    known = {}

    def of(case):
        if case not in known:
            known[case] = scores(CASES[case](whole_numbers), new_points(case))
        return known[case]

    return of


def new_points(case):
    return scipy.sparse.csr_array(NEW) if "sparse" in case else NEW


#: Cases that share their way to the kernel with another case.
ALIKE = {"GridSearchCV", "SVC, six classes", "EcoSVDD", "IncrementalSVDD", "IncrementalSVR", "ConformalSVR"}


@pytest.mark.parametrize("case", often(CASES, *(case for case in CASES if case not in ALIKE)))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_form_of_kernel_values_gives_the_same_model(case, plain):
    for name, form in FORMS.items():
        found = scores(CASES[case](lambda A, B, form=form: form(whole_numbers(A, B))), new_points(case))
        np.testing.assert_array_equal(found, plain(case), err_msg=name)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_report_and_front(form):
    def kernel(A, B):
        return FORMS[form](whole_numbers(A, B))

    def scores_of(k):
        model = SVC(kernel=k).fit(X, Y)
        report = generalization_report(model, X, Y)
        front = pareto_front(X, Y, kernel=k, max_points=5)
        return repr(report), [point.error for point in front.points]

    assert scores_of(kernel) == scores_of(whole_numbers)


@pytest.mark.parametrize("form", ["Fortran order", "list", "frame", "float32"])
def test_objects_for_a_callable_kernel_give_the_same_model(form):
    words, labels = ["a", "ab", "abc", "b", "bc", "bcd", "c", "ca"], [0, 0, 0, 1, 1, 1, 0, 1]

    def common(A, B):
        return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])

    plain = SVC(kernel=common).fit(words, labels).decision_function(["abcd", "x"])
    found = SVC(kernel=lambda A, B: FORMS[form](common(A, B))).fit(words, labels).decision_function(["abcd", "x"])
    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (lambda K: K * (1 + 1j), "complex"),
        (lambda K: K + 0j, "complex"),
        (lambda K: (K + 0j).astype(object), "complex"),
        (lambda K: K.astype(str), "dtype"),
        (lambda K: [*K.tolist()[:-1], [1.0]], "no matrix|shape"),
        (lambda K: np.ma.masked_less(K, 2.0), "masked"),
        (lambda K: K[None], "shape"),
    ],
    ids=["complex", "real numbers as complex", "complex objects", "text", "ragged", "masked", "3-d"],
)
@pytest.mark.parametrize("fit", [
    lambda k: SVC(kernel=k).fit(X, Y),
    lambda k: SVDD(kernel=k).fit(X),
    lambda k: SVR(kernel=k).fit(X, Z),
    lambda k: LSSVC(kernel=k).fit(X, Y),
    lambda k: EcoSVC(kernel=k).fit(X, Y),
    lambda k: IncrementalSVC(kernel=k).fit(X, Y),
    lambda k: SVC(kernel=lambda A, B: k(np.zeros((len(A), 3)), np.zeros((len(B), 3)))).fit(["a", "b", "c"], [0, 1, 1]),
], ids=["SVC", "SVDD", "SVR", "LSSVC", "EcoSVC", "IncrementalSVC", "of words"])  # fmt: skip
def test_kernel_values_that_are_no_real_matrix_are_refused(fit, form, message):
    with pytest.raises(ProblemError, match=f"kernel: the callable returned.*({message})"):
        fit(lambda A, B: form(whole_numbers(A, B)))


def test_a_complex_kernel_is_refused_at_prediction_too():
    answers = [1.0]
    model = SVC(kernel=lambda A, B: whole_numbers(A, B) * answers[0]).fit(X, Y)
    answers[0] = 1.0 + 0.5j
    with pytest.raises(ProblemError, match="complex"):
        model.predict(NEW)


class Drifting:
    """A kernel whose values grow a little with every call."""

    def __init__(self):
        self.calls = 0

    def __call__(self, A, B):
        self.calls += 1
        return rbf_kernel(A, B) * (1.0 + 1e-4 * self.calls)


def noisy(A, B):
    noise = np.random.default_rng(abs(hash((A.tobytes(), len(B)))) % 2**32).standard_normal()
    return rbf_kernel(A, B) * (1.0 + 1e-3 * noise)


def of_the_block(A, B):
    K = rbf_kernel(A, B)
    return K / K.sum()


@pytest.mark.parametrize("make", [Drifting, lambda: noisy, lambda: of_the_block], ids=["drifts", "noise", "block"])
@pytest.mark.parametrize("case", ["SVC", "SVDD", "OneClassSVM", "SVR", "LSSVC", "EcoSVC", "EcoSVDD", "IncrementalSVC"])
def test_a_contradictory_callable_is_an_error(make, case):
    with pytest.raises(ProblemError, match=r"kernel: the callable contradicts itself, k\(x, z\) was"):
        CASES[case](make())


def test_a_callable_that_is_not_symmetric_between_far_points_is_an_error():
    many = np.arange(200.0)[:, None]

    def kernel(A, B):  # within 64 neighbours it is symmetric
        return np.exp(-1e-3 * np.abs(A - B.T)) + 0.2 * (A - B.T > 100)

    with pytest.raises(ProblemError, match="not symmetric"):
        Gram(many, kernel)


def test_round_off_of_products_that_cancel_is_no_contradiction():
    """It grows with √(k(x,x) k(z,z)), not with |k(x,z)|; here it depends on how many points are in a call."""
    many = rng.standard_normal((60, 4)).astype(np.float32)
    many /= np.linalg.norm(many, axis=1)[:, None]
    round_off = 4 * np.finfo(np.float32).eps

    def kernel(A, B):
        return ((A @ B.T) + round_off * (len(A) % 7)).astype(np.float32)

    assert Gram(many, kernel).n == 60

    def contradictory(A, B):
        return ((A @ B.T) + 100 * round_off * (len(A) % 7)).astype(np.float32)

    with pytest.raises(ProblemError, match="contradicts itself"):
        Gram(many, contradictory)


def test_float32_values_that_differ_in_their_last_bit_are_symmetric():
    many = rng.standard_normal((150, 30)).astype(np.float32)

    def kernel(A, B):
        K = (A.astype(np.float32) @ B.astype(np.float32).T).astype(np.float32)
        return K + np.float32(1e-6) * np.triu(np.abs(K), 1)

    assert Gram(many, kernel).n == 150
