"""ONNX: what onnxruntime computes of a graph is what the model says, to the digits that the input has."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn import svm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine, make_moons
from sklearn.preprocessing import StandardScaler

from dualflow import (
    LSSVC,
    LSSVR,
    SVC,
    SVDD,
    SVR,
    EcoSVC,
    EcoSVDD,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    ProblemError,
)
from dualflow.interchange import from_libsvm, to_libsvm, to_onnx
from tests.combinations import covering

skl2onnx = pytest.importorskip("skl2onnx", reason="pip install 'dualflow[onnx]'")
onnx = pytest.importorskip("onnx", reason="pip install 'dualflow[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install 'dualflow[onnx]'")

KERNELS = {
    "linear": {},
    "rbf": {},
    "poly": {"degree": 2, "coef0": 1.0},
    "sigmoid": {"gamma": 0.01, "coef0": 0.25},
}
SETS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
    "diabetes": load_diabetes,
}
M, T = make_moons(120, noise=0.15, random_state=0)
I, TI = load_iris(return_X_y=True)  # noqa: E741


def data(name):
    X, y = SETS[name](return_X_y=True)
    X, y = X[::6] if name == "digits" else X, y[::6] if name == "digits" else y
    return StandardScaler().fit_transform(X), y


def answers(model, Z, **options):
    """The outputs of a graph, by name."""
    made = to_onnx(model, dtype=str(Z.dtype), **options) if not hasattr(model, "graph") else model
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, {"X": Z}), strict=True))


def same(model, Z, **options):
    """Whether a graph says what the model does: scores to 1e-4 of the largest in float32 and 1e-9 in float64, labels
    wherever two of them are not as near to each other."""
    for dtype, near in ((np.float32, 1e-4), (np.float64, 1e-9)):
        points = Z.astype(dtype)
        found = answers(model, points, **options)
        if "variable" in found:
            wanted = model.predict(points)[:, None]
            assert np.allclose(found["variable"], wanted, rtol=0, atol=near * max(1.0, np.abs(wanted).max()))
            assert found["variable"].dtype == dtype
            continue
        wanted = model.decision_function(points)
        size = max(1.0, np.abs(wanted).max())
        assert found["scores"].dtype == dtype
        assert found["scores"].shape == wanted.shape
        assert np.allclose(found["scores"], wanted, rtol=0, atol=near * size)
        labels = model.predict(points)
        assert found["label"].shape == labels.shape
        assert found["label"].dtype.kind in ("O" if labels.dtype.kind == "U" else labels.dtype.kind)
        clear = np.abs(wanted).reshape(len(Z), -1).min(axis=1) > near * size
        assert np.array_equal(found["label"][clear], labels[clear])
        assert clear.mean() > 0.4


@pytest.mark.filterwarnings("ignore:kernel. the problem's matrix is indefinite")
@pytest.mark.parametrize(("name", "kernel"), covering(list(SETS), list(KERNELS), together=1))
def test_on_five_data_sets(name, kernel):
    X, y = data(name)
    Z, facts = X[::3] + 0.01, {"kernel": kernel, **KERNELS[kernel]}
    if name == "diabetes":
        same(SVR(C=50.0, **facts).fit(X, y), Z)
        y = y > np.median(y)
    for shape in ("ovo", "ovr"):
        same(SVC(decision_function_shape=shape, **facts).fit(X, y), Z)
    same(SVDD(nu=0.2, **facts).fit(X), Z)
    same(OneClassSVM(nu=0.2, **facts).fit(X + 3.0), Z + 3.0)  # with 0 among the points a plane says nothing


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_least_squares(kernel):
    X, y = data("iris")
    same(LSSVC(C=5.0, kernel=kernel).fit(X, y), X[::3] + 0.01)
    same(LSSVR(C=5.0, kernel=kernel, fit_intercept=False).fit(X[:, 1:], X[:, 0]), X[::3, 1:] + 0.01)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_models_of_nu(kernel):
    X, y = data("iris")
    same(NuSVC(nu=0.4, kernel=kernel).fit(X, y), X[::3] + 0.01)
    same(NuSVR(nu=0.4, kernel=kernel).fit(X[:, 1:], X[:, 0]), X[::3, 1:] + 0.01)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_streams_are_written_as_they_are_now(kernel):
    order = np.random.default_rng(0).permutation(len(I))
    facts = {"kernel": kernel, "coef0": 1.0}
    same(IncrementalSVC(**facts).fit(I[order[:60]], TI[order[:60]]).forget([3, 7]), I)
    same(IncrementalSVC(**facts).fit(M[:50], T[:50]), M)
    same(IncrementalSVR(**facts).fit(M[:50], T[:50].astype(float)), M)
    same(IncrementalSVDD(nu=0.2, **facts).fit(M[:50]), M)
    same(EcoSVC(**facts).fit(I[order], TI[order]), I)
    same(EcoSVC(fit_intercept=False, **facts).fit(M, T), M)
    same(EcoSVDD(nu=0.2, **facts).fit(M), M)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_large_c_and_data_far_from_the_origin(kernel):
    X, y = data("breast cancer")
    same(SVC(C=1e6, kernel=kernel).fit(X, y), X)
    for mean in (1e4, 1e7):
        far = (I + mean).astype(np.float32 if mean == 1e4 else float)
        models = [
            SVC(kernel=kernel).fit(far, TI),
            SVR(kernel=kernel).fit(far, TI),
            SVDD(nu=0.1, kernel=kernel).fit(far),
        ]
        for model in models:
            found = answers(model, far)
            wanted = model.predict(far)[:, None] if isinstance(model, SVR) else model.decision_function(far)
            assert np.allclose(found.get("scores", found.get("variable")), wanted, rtol=0, atol=2e-6)


NARROW = "ignore:The gap as computed is within the tolerance"  # of a ball as small as the last digits of its points


@pytest.mark.parametrize(
    "gamma", [0.0, pytest.param(1e-12, marks=pytest.mark.filterwarnings(NARROW)), 1e6, 1e10, 1e300]
)
def test_kernels_of_any_width(gamma):
    for model in (SVC(gamma=gamma).fit(M, T), SVDD(gamma=gamma, nu=0.3).fit(M)):
        found = answers(model, M)
        assert np.allclose(found["scores"], model.decision_function(M), rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore:kernel. the problem's matrix is indefinite")
def test_points_far_away_and_what_is_no_number():
    far = np.array([[1e200, 0.0], [1e300, -1e300], [-1e160, 3.0], [1.7e308, -1.7e308], [1e9, 0.0]])
    for model in (SVC().fit(M, T), SVDD(nu=0.2).fit(M)):
        assert np.allclose(answers(model, far)["scores"], model.decision_function(far), rtol=0, atol=1e-12)
        assert np.isnan(answers(model, np.array([[np.nan, 0.0]]))["scores"]).all()
    model = SVC(kernel="poly", degree=2.5, gamma=1.0, coef0=1.0).fit(np.abs(M), T)
    same(model, np.abs(M))
    assert np.isnan(answers(model, np.array([[-50.0, -50.0]]))["scores"]).all()  # where predict is an error
    line = np.array([[0.1, 0.3], [0.3, 0.9]])
    model = SVC(kernel="poly", degree=0.5, gamma=1.0, coef0=0.0).fit(line, [0, 1])
    across = np.linspace(0.1, 0.9, 97)[:, None] * [0.9, -0.3]  # all ⟨x, z⟩ are 0, and to a computer −2e-17 now and then
    across = np.concatenate([across, line])
    assert np.allclose(answers(model, across)["scores"], model.decision_function(across), rtol=0, atol=1e-6)


def test_labels_of_all_kinds():
    kinds = [["é☃", "ß"], ["", "x"], [True, False], [1.0, 2.0], [2**62, -(2**62)], np.array(["a", "b"], dtype=object)]
    for kind in kinds:
        model = SVC().fit(M, np.array(kind)[T])
        same(model, M)
        assert sorted(set(answers(model, M)["label"].tolist())) == sorted(np.array(kind).tolist())
    refused = [["a\0b", "c"], ["\ud800", "c"], [b"a", b"b"], np.array([2**63 + 1, 5], dtype=np.uint64)]
    for kind in [*refused, np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]")]:
        with pytest.raises(ProblemError, match=r"classes_ are .*LabelEncoder"):
            to_onnx(SVC().fit(M, np.array(kind)[T]))


def test_parameters_that_change_what_is_said():
    weights = {"class_weight": {0: 5.0}}
    for facts in ({"break_ties": True}, weights, {"loss": "squared_hinge"}, {"fit_intercept": "penalised"}):
        same(SVC(**facts).fit(I, TI), I + 0.1)
    model = SVC(decision_function_shape="ovo", break_ties=True).fit(I, TI)
    with pytest.raises(ProblemError, match="break_ties must be False"):
        to_onnx(model)
    same(SVC().fit(I[:, :1], TI), I[:, :1])
    same(SVC().fit(sparse.csr_array(I), TI), I)
    # A tie of all votes goes to the first class, and to the largest sum with break_ties.
    corners = np.array([[np.cos(a), np.sin(a)] for a in (0.1, 2.2, 4.3)])
    for ties in (False, True):
        model = SVC(kernel="linear", C=100.0, break_ties=ties).fit(corners, [0, 1, 2])
        grid = np.stack(np.meshgrid(*2 * [np.linspace(-0.3, 0.3, 61)]), axis=-1).reshape(-1, 2)
        assert np.array_equal(answers(model, grid)["label"], model.predict(grid))


def test_many_classes_take_no_matrix_of_pairs():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60), 3)
    X = rng.normal(size=(180, 30)) + 3.0 * rng.normal(size=(60, 30))[y]
    for kernel in ("linear", "rbf"):
        model = SVC(kernel=kernel).fit(X, y)
        same(model, X[::4])
        assert to_onnx(model).ByteSize() < 3.5e5  # n_SV × pairs would be 2.5 MB, features × pairs 0.4 MB


def test_models_of_no_or_few_support_vectors():
    declared = [cls().partial_fit(M[:5], T[:5], classes=[0, 1, 2]) for cls in (EcoSVC, IncrementalSVC)]
    nothing = IncrementalSVC().fit(M[:6], T[:6])
    empty = IncrementalSVR().fit(M[:6], T[:6]).forget(range(6))
    for model in (*declared, SVR(epsilon=100.0).fit(M, T), empty):
        same_numbers(model)
    same_numbers(nothing.forget(nothing.ids_))
    several = IncrementalSVC().fit(I[::30], TI[::30])  # without points all pairs have the value 0
    same_numbers(several.forget(several.ids_))
    same_numbers(several.set_params(decision_function_shape="ovo"))
    for kernel in ("rbf", "linear"):
        same_numbers(SVDD(kernel=kernel).fit(np.ones((3, 2))))
    model = IncrementalSVDD(nu=0.3).fit(M[:6])
    with pytest.raises(ProblemError, match="IncrementalSVDD has no support vectors"):
        to_onnx(model.forget(model.ids_))


def same_numbers(model):
    Z = M if model.n_features_in_ == 2 else I
    found, values = answers(model, Z), getattr(model, "decision_function", model.predict)(Z)
    assert np.allclose(found["scores"] if "scores" in found else found["variable"][:, 0], values, atol=1e-12)
    if "label" in found:
        assert np.array_equal(found["label"], model.predict(Z))


def test_batches_of_any_shape():
    for model, Z in (
        (SVC().fit(I, TI), I),
        (SVC(gamma=1e12).fit(M, T), M),
        (SVDD(nu=0.1).fit(M), M),
        (SVR().fit(M, T), M),
    ):
        for dtype in ("float32", "float64"):
            session = onnxruntime.InferenceSession(to_onnx(model, dtype=dtype).SerializeToString())
            points = Z.astype(dtype)
            whole = session.run(None, {"X": points})
            shapes = [array.shape for array in session.run(None, {"X": points[:0]})]
            assert shapes == [(0, *array.shape[1:]) for array in whole]
            for again in (np.asfortranarray(points), np.repeat(points, 2, axis=0)[::2]):
                assert all(map(np.array_equal, whole, session.run(None, {"X": again})))
            with pytest.raises(Exception, match="invalid dimensions"):
                session.run(None, {"X": points[:, :1]})


@pytest.mark.filterwarnings("ignore:kernel. the problem's matrix is indefinite")
@pytest.mark.parametrize("kernel", KERNELS)
def test_libsvm_files(tmp_path, kernel):
    facts, path = {"kernel": kernel, **KERNELS[kernel]}, tmp_path / "model"
    for X, y in ((I, np.array([7, -3, 2])[TI]), (M, T)):
        for cls in (svm.SVC, SVC, SVR, OneClassSVM):
            to_libsvm(cls(**facts).fit(X, y), path)
            model = from_libsvm(path, X.shape[1])
            found = answers(model, X + 0.01)
            if model.svm_type == "epsilon_svr":
                assert np.allclose(found["variable"][:, 0], model.predict(X + 0.01), atol=1e-9)
                continue
            assert np.allclose(found["scores"], model.decision_function(X + 0.01), atol=1e-9)
            assert np.array_equal(found["label"], model.predict(X + 0.01))


@pytest.mark.parametrize(
    "head",
    [
        "svm_type one_class\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0\nSV\n",
        "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 5 7\nnr_sv 1 1\nSV\n",
        "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 7 5\nnr_sv 1 1\nSV\n",
    ],
)
def test_a_value_of_0_in_a_libsvm_file(tmp_path, head):
    (tmp_path / "model").write_text(head + "1 1:1\n-1 1:-1\n")
    model, Z = from_libsvm(tmp_path / "model"), np.array([[0.0], [1.0], [-1.0]])
    found = answers(model, Z)
    assert found["scores"].tolist() == model.decision_function(Z).tolist()
    assert found["label"].tolist() == model.predict(Z).tolist()


def test_files_are_whole_and_equal_for_equal_models(tmp_path):
    model, path = SVC().fit(I, TI), tmp_path / "deep" / "model.onnx"
    made = to_onnx(model, path)
    assert path.read_bytes() == made.SerializeToString() == to_onnx(model).SerializeToString()
    session = onnxruntime.InferenceSession(path)
    assert session.get_inputs()[0].shape == [None, 4]
    for opset in (13, 17, 18, 21):
        same(model, I, target_opset=opset)


@pytest.mark.parametrize("opset", [13, 18])
def test_graphs_are_onnx_to_the_letter(opset):
    """The checker, and ONNX's own evaluator, which shares nothing with onnxruntime."""
    from onnx.reference import ReferenceEvaluator

    words = np.array(["a", "é"])[T]
    for model, Z in ((SVC(kernel="poly").fit(I, TI), I), (SVC().fit(M, words), M), (SVDD(nu=0.2).fit(M), M)):
        made = to_onnx(model, dtype="float64", target_opset=opset)
        onnx.checker.check_model(made, full_check=True)
        label, scores = ReferenceEvaluator(made).run(None, {"X": Z})
        assert np.allclose(scores, model.decision_function(Z), rtol=0, atol=1e-9)
        assert np.array_equal(label, model.predict(Z))


@pytest.mark.parametrize("kind", [SVC, SVR, SVDD, OneClassSVM])
def test_a_linear_model_is_exported_by_its_own_weights(kind):
    """Where columns are far apart in scale Σ coef x of the support vectors has lost the digits of `coef_`."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    values = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=300)
    X[:, -1] *= 1e9
    y = {SVC: [np.digitize(values, [-0.5, 0.5])], SVR: [values]}.get(kind, [])
    model = kind(kernel="linear", solver="interior-point").fit(X, *y)
    assert model._linear is not None
    found = answers(model, X)
    said = model.predict(X)[:, None] if kind is SVR else model.decision_function(X)
    scores = found["variable" if kind is SVR else "scores"]
    np.testing.assert_allclose(scores, said, rtol=1e-12, atol=1e-12 * np.abs(said).max())
