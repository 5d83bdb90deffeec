"""LIBSVM's model files: what is written is read back by a reader that shares nothing with ours, and gives
scikit-learn's decision values; what others wrote is read, or refused in a sentence."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn import svm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine, make_moons
from sklearn.exceptions import NotFittedError

import dualflow
from dualflow import SVC, SVDD, SVR, IncrementalSVC, ProblemError
from dualflow.interchange import LibsvmModel, from_libsvm, libsvm_text, to_libsvm

KERNELS = {
    "linear": {},
    "rbf": {"gamma": 0.07},
    "poly": {"degree": 2, "gamma": 0.1, "coef0": 1.0},
    "sigmoid": {"gamma": 0.01, "coef0": 0.25},
}
SETS = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}


def scaled(name):
    X, y = SETS[name](return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def read_by_hand(path):
    """The keywords of a file, and its vectors as (coefficients, {index: value})."""
    head, body = path.read_text().split("\nSV\n")
    words = {line.split()[0]: line.split()[1:] for line in head.splitlines()}
    width = int(words["nr_class"][0]) - 1
    rows = [line.split() for line in body.splitlines()]
    vectors = [({int(i): float(v) for i, v in (w.split(":") for w in row[width:])}) for row in rows]
    return words, [[float(word) for word in row[:width]] for row in rows], vectors


def values_by_hand(path, Z):
    """LIBSVM's decision values, straight from its documentation: one sum at a time."""
    words, coefficients, vectors = read_by_hand(path)
    kernel = words["kernel_type"][0]
    gamma, coef0 = float(words.get("gamma", [0])[0]), float(words.get("coef0", [0])[0])

    def k(vector, z):
        if kernel == "precomputed":
            return z[int(vector[0]) - 1]
        x = np.zeros(len(z))
        for index, value in vector.items():
            x[index - 1] = value
        return {
            "linear": lambda: x @ z,
            "polynomial": lambda: (gamma * (x @ z) + coef0) ** int(words["degree"][0]),
            "rbf": lambda: np.exp(-gamma * ((x - z) ** 2).sum()),
            "sigmoid": lambda: np.tanh(gamma * (x @ z) + coef0),
        }[kernel]()

    K = np.array([[k(vector, z) for vector in vectors] for z in Z])
    rho = [float(word) for word in words["rho"]]
    if "label" not in words:
        return K @ np.array(coefficients)[:, 0] - rho[0]
    ends = np.cumsum([0, *map(int, words["nr_sv"])])
    columns = []
    for i in range(len(ends) - 1):
        for j in range(i + 1, len(ends) - 1):
            value = np.full(len(Z), -rho[len(columns)])
            for n in range(ends[i], ends[i + 1]):
                value += coefficients[n][j - 1] * K[:, n]
            for n in range(ends[j], ends[j + 1]):
                value += coefficients[n][i] * K[:, n]
            columns.append(value)
    return np.array(columns).T


@pytest.mark.filterwarnings("ignore:kernel. the problem's matrix is indefinite")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", SETS)
def test_a_classifier_is_written_and_read(tmp_path, name, kernel):
    X, y = scaled(name)
    Z = X[::9] + 0.01
    ours = SVC(kernel=kernel, decision_function_shape="ovo", **KERNELS[kernel]).fit(X, y)
    theirs = svm.SVC(kernel=kernel, decision_function_shape="ovo", tol=1e-9, **KERNELS[kernel]).fit(X, y)
    path = tmp_path / "model"
    for model in (ours, theirs):
        to_libsvm(model, path)
        by_hand, read = values_by_hand(path, Z), from_libsvm(path)
        if len(np.unique(y)) == 2:
            by_hand = -by_hand[:, 0]
        assert read_by_hand(path)[0]["label"] == [str(label) for label in np.unique(y)]
        assert np.allclose(by_hand, model.decision_function(Z), atol=1e-9)
        assert np.allclose(read.decision_function(Z), model.decision_function(Z), atol=1e-9)
        assert np.array_equal(read.predict(Z), model.predict(Z))
        if kernel != "sigmoid":  # whose optimum is not one
            assert np.allclose(by_hand, theirs.decision_function(Z), atol=1e-4)


@pytest.mark.filterwarnings("ignore:kernel. the problem's matrix is indefinite")
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_regression_is_written_and_read(tmp_path, kernel):
    X, y = load_diabetes(return_X_y=True)
    path = tmp_path / "model"
    for cls in (SVR, svm.SVR):
        model = cls(kernel=kernel, C=50.0, **KERNELS[kernel]).fit(X[::3], y[::3])
        to_libsvm(model, path)
        assert np.allclose(values_by_hand(path, X[:20]), model.predict(X[:20]), rtol=1e-9)
        assert np.allclose(from_libsvm(path).predict(X[:20]), model.predict(X[:20]), rtol=1e-9)
    with pytest.raises(ProblemError, match="is a regression"):
        from_libsvm(path).decision_function(X[:2])


def test_one_class_and_data_descriptions(tmp_path):
    X, _ = make_moons(80, noise=0.1, random_state=0)
    path = tmp_path / "model"
    theirs = svm.OneClassSVM(nu=0.2, gamma=0.8).fit(X)
    to_libsvm(theirs, path)
    assert np.allclose(values_by_hand(path, X), theirs.decision_function(X), atol=1e-12)
    assert np.allclose(from_libsvm(path).decision_function(X), theirs.decision_function(X), atol=1e-12)
    ours = SVDD(nu=0.2, kernel="rbf", gamma=0.8).fit(X)
    to_libsvm(ours, path)
    assert np.allclose(2.0 * values_by_hand(path, X + 0.3), ours.decision_function(X + 0.3), atol=1e-12)
    assert np.array_equal(from_libsvm(path).predict(X + 0.3), ours.predict(X + 0.3))
    with pytest.raises(ProblemError, match="use kernel='rbf'"):
        to_libsvm(SVDD(kernel="linear").fit(X), path)


@pytest.mark.parametrize("several", [False, True])
def test_precomputed_kernels_name_their_points(tmp_path, several):
    X, y = scaled("wine")
    X, y = (X, y) if several else (X[y < 2], y[y < 2])
    model = SVC(kernel="precomputed", decision_function_shape="ovo").fit(X @ X.T, y)
    to_libsvm(model, tmp_path / "model")
    read, Z = from_libsvm(tmp_path / "model"), X[::5] @ X.T
    by_hand = values_by_hand(tmp_path / "model", Z)
    assert np.allclose(by_hand if several else -by_hand[:, 0], model.decision_function(Z), atol=1e-9)
    assert np.allclose(read.decision_function(Z), model.decision_function(Z), atol=1e-9)
    with pytest.raises(ProblemError, match="features"):
        read.predict(Z[:, :3])


def test_sparse_streams_and_other_losses(tmp_path):
    X, y = scaled("breast cancer")
    X, y, path = X[:120], y[:120], tmp_path / "model"
    S = sparse.csr_matrix(np.where(np.abs(X) < 0.7, 0.0, X))
    lives = [
        (SVC().fit(S, y), S),
        (SVC(loss="squared_hinge").fit(X, y), X),
        (SVC(fit_intercept="penalised").fit(X, y), X),
        (SVC(fit_intercept=False).fit(X, y > 0), X),
        (IncrementalSVC().partial_fit(X[:60], y[:60], classes=[0, 1]), X),
    ]
    for model, Z in lives:
        to_libsvm(model, path)
        read = from_libsvm(path, X.shape[1])
        assert np.allclose(read.decision_function(Z), model.decision_function(Z), atol=1e-9)
    assert sorted(read.classes_) == [0, 1]


def test_a_file_that_was_read_is_written_alike(tmp_path):
    X, y = scaled("iris")
    to_libsvm(SVC().fit(X, y), tmp_path / "one")
    to_libsvm(from_libsvm(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


#: As svm-train writes it: its own order of labels, floats of %g, probabilities, a space at the end of lines.
THEIRS = """svm_type nu_svc
kernel_type rbf
gamma 0.5
nr_class 3
total_sv 4
rho 0.25 -0.5 0.125
label 5 -3 2
probA -1.5 -1 2
probB 0.25 0 1
nr_sv 2 1 1
SV
0.5 1 1:1 3:-2
-0.25 0.75 2:0.5\x20
1.5 -1 1:2\x20
2 0.5
"""


def test_a_file_of_others_is_read(tmp_path):
    path = tmp_path / "theirs"
    path.write_text(THEIRS)
    model, Z = from_libsvm(path, 4), np.random.default_rng(0).normal(size=(7, 4))
    assert isinstance(model, LibsvmModel)
    assert (model.svm_type, model.kernel, model.gamma, model.n_features_in_) == ("nu_svc", "rbf", 0.5, 4)
    raw = values_by_hand(path, Z)  # pairs (5, -3), (5, 2), (-3, 2)
    assert model.classes_.tolist() == [-3, 2, 5]
    wanted = np.array([raw[:, 2], -raw[:, 0], -raw[:, 1]]).T  # pairs (-3, 2), (-3, 5), (2, 5)
    assert np.allclose(model.decision_function(Z), wanted)
    votes = [[int(a) + b, int(not a) + c, int(not b) + (not c)] for a, b, c in (raw > 0).tolist()]
    assert model.predict(Z).tolist() == [[5, -3, 2][int(np.argmax(v))] for v in votes]
    assert np.array_equal(model.predict(Z), model.predict(sparse.csr_array(Z)))
    for wrong in (2, 0, "many", True):
        with pytest.raises(ProblemError, match="n_features="):
            from_libsvm(path, wrong)
    with pytest.raises(ProblemError, match=r"X has 5 features, the model 3.*from_libsvm\(path, n_features"):
        from_libsvm(path).predict(np.zeros((1, 5)))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("svm_type nu_svc", "svm_type svdd", "'svdd' is not one of c_svc"),
        ("kernel_type rbf", "kernel_type laplace", "'laplace' is not one of linear"),
        ("gamma 0.5\n", "", "has no gamma, which kernel_type rbf needs"),
        ("kernel_type rbf\n", "kernel_type sigmoid\n", "has no coef0, which kernel_type sigmoid needs"),
        ("kernel_type rbf\n", "kernel_type polynomial\ncoef0 0\n", "has no degree, which kernel_type polynomial needs"),
        ("gamma 0.5", "gamma -0.5", "gamma '-0.5' is below 0"),
        ("gamma 0.5", "gamma nan", "'nan', gamma, is not a finite number"),
        ("gamma 0.5", "gamma 1_0", "'1_0', gamma"),
        ("gamma 0.5", "gamma 0.5\ngamma 0.5", "line 4: gamma appears a second time"),
        ("gamma 0.5", "gamma", "gamma has 0 values"),
        ("nr_class 3", "nr_class 2", "rho has 3 values, and nr_class 2 needs 1"),
        ("nr_class 3", "nr_class 99999999999", "nr_class"),
        ("nr_class 3", "nr_class 2147483647", "rho has 3 values"),
        ("total_sv 4", "total_sv 5", "nr_sv sums to 4, total_sv is 5"),
        ("2 0.5\n", "", "3 support vectors follow; the file is cut off"),
        ("label 5 -3 2", "label 5 05 2", "a label appears twice"),
        ("label 5 -3 2", "label 5 -3 b", "'b', label, is not a whole number"),
        ("\nSV\n", "\n", "is not a keyword"),
        (THEIRS, "svm_type c_svc\n", "no line 'SV'"),
        (THEIRS, "", "no line 'SV'"),
        ("rho 0.25 -0.5 0.125\n", "", "has no rho"),
        ("1:1 3:-2", "1:1 1:2", "line 12: index 1 follows 1"),
        ("1:1 3:-2", "0:1", "index 0 follows 0"),
        ("1:1 3:-2", "1:1 3", "'3' is not index:value"),
        ("1:1 3:-2", "1:inf", "'inf', the value of index 1"),
        ("1:1 3:-2", "9999999999999:1", "an index, is not a whole number"),
        ("2 0.5\n", "2\n", "it has 1 words; 2 coefficients"),
        ("0.5 1 1:1", "0.5 é", "is not ASCII"),
        ("kernel_type rbf", "kernel_type precomputed", "must begin with 0:number of its point"),
        ("svm_type nu_svc", "svm_type one_class", "nr_class 3 with svm_type one_class"),
        ("gamma 0.5", "\x1b[2Jm 0.5", "is not a keyword"),
    ],
)
def test_damaged_files_are_refused_in_a_sentence(tmp_path, old, new, words):
    path = tmp_path / "damaged"
    assert old in THEIRS
    path.write_text(THEIRS.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ProblemError, match=re.escape(words)) as caught:
        from_libsvm(path)
    assert "\x1b" not in str(caught.value)


def test_sizes_are_limited(tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_text(THEIRS)
    monkeypatch.setattr(libsvm_text, "MAX_LINE", 10)
    with pytest.raises(ProblemError, match="more than MAX_LINE=10 bytes"):
        from_libsvm(path)
    monkeypatch.setattr(libsvm_text, "MAX_BYTES", 100)
    with pytest.raises(ProblemError, match="MAX_BYTES"):
        from_libsvm(path)
    with pytest.raises(ProblemError, match="directory"):
        from_libsvm(tmp_path)
    with pytest.raises(OSError, match="nowhere"):
        from_libsvm(tmp_path / "nowhere")


@pytest.mark.filterwarnings("ignore:kernel. the problem's matrix is indefinite")
def test_what_libsvm_cannot_hold_is_refused(tmp_path):
    X, t = make_moons(40, noise=0.1, random_state=0)
    path = tmp_path / "model"
    with pytest.raises(ProblemError, match="LabelEncoder"):
        to_libsvm(SVC().fit(X, np.array(["a", "b"])[t]), path)
    with pytest.raises(ProblemError, match="LabelEncoder"):
        to_libsvm(SVC().fit(X, 2**40 * (t + 1)), path)
    with pytest.raises(ProblemError, match="LIBSVM files have only the kernels linear"):
        to_libsvm(SVC(kernel=lambda a, b: a @ b.T).fit(X, t), path)
    with pytest.raises(ProblemError, match=r"degree=2\.5"):
        to_libsvm(SVC(kernel="poly", degree=2.5, coef0=30.0).fit(X, t), path)
    with pytest.raises(NotFittedError):
        to_libsvm(SVC(), path)
    assert not path.exists()


def test_the_package_does_not_import_it():
    code = "import sys, dualflow; print('dualflow.interchange' in sys.modules, dualflow.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", dualflow.__version__]
