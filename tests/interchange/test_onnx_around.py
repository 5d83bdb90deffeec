"""ONNX: pipelines and estimators of scikit-learn around ours, and what is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualflow import SVC, SVDD, SVR, FidelityKernel, ProblemError, SolverUnavailable, SVCSearchCV
from dualflow.interchange import from_libsvm, onnx_parts, register_onnx, to_onnx
from tests.interchange.test_onnx import TI, I, M, T, answers, same

skl2onnx = pytest.importorskip("skl2onnx", reason="pip install 'dualflow[onnx]'")


def test_pipelines_and_searches():
    scaled = make_pipeline(StandardScaler(), SVC()).fit(I + 100.0, TI)
    same(scaled, I + 100.0)
    columns = ColumnTransformer([("scaled", StandardScaler(), [0, 1]), ("plain", "passthrough", [3])])
    same(make_pipeline(columns, SVC()).fit(I, TI), I)
    same(make_pipeline(StandardScaler(), SVR()).fit(M, T), M)
    same(make_pipeline(StandardScaler(), SVDD(nu=0.2)).fit(M), M)
    same(GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [1, 2]}).fit(M, T), M)
    same(SVCSearchCV(SVC(), {"C": [1.0, 2.0]}).fit(M, T), M)
    register_onnx()
    for model in (scaled, GridSearchCV(SVC(), {"C": [1, 2]}).fit(M, T)):
        Z = (I + 100.0 if model is scaled else M).astype(np.float32)
        found = answers(skl2onnx.to_onnx(model, Z), Z)
        assert np.allclose(found["scores"], model.decision_function(Z), atol=1e-4)


def test_within_estimators_of_scikit_learn():
    for X, y in ((I, TI), (M, T)):
        model = CalibratedClassifierCV(SVC(), cv=3).fit(X, y)
        made = skl2onnx.convert_sklearn(
            model, initial_types=[("X", skl2onnx.common.data_types.DoubleTensorType([None, X.shape[1]]))],
            options={id(model): {"zipmap": False}},
        )  # fmt: skip
        assert np.allclose(answers(made, X)["probabilities"], model.predict_proba(X), atol=1e-9)
        steps = make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), cv=3, method="isotonic"))
        with pytest.raises(ProblemError, match="method='isotonic'"):
            to_onnx(steps.fit(X, y))
    same(VotingRegressor([("a", SVR()), ("b", SVR(C=3.0))]).fit(M, T), M)
    with pytest.raises(ProblemError, match="SVC: another estimator needs its probabilities"):
        to_onnx(BaggingClassifier(SVC(), 2).fit(M, T))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (SVC(kernel="precomputed").fit(M @ M.T, T), "its kernel is 'precomputed'"),
        (SVC(kernel=lambda a, b: a @ b.T).fit(M, T), "a callable, <lambda>, which an ONNX graph cannot compute"),
        (SVC(kernel=FidelityKernel("angle")).fit(M[:8], T[:8]), "fidelity"),
        (SVR, "model is type; to_onnx needs a fitted estimator"),
        (None, "model is NoneType"),
        (
            GridSearchCV(SVC(), {"C": [1, 2]}, refit=False).fit(M, T),
            "does not state its number of features|cannot convert",
        ),
    ],
)
def test_what_onnx_cannot_hold_is_refused(model, words):
    with pytest.raises((ProblemError, NotFittedError), match=words):
        to_onnx(model)


def test_bad_arguments_are_refused(tmp_path, monkeypatch):
    model = SVC().fit(M, T)
    with pytest.raises(NotFittedError):
        to_onnx(SVC(), tmp_path / "model.onnx")
    for options in ({"dtype": "float16"}, {"target_opset": 12}, {"target_opset": True}, {"target_opset": 999}):
        with pytest.raises(ProblemError, match=next(iter(options))):
            to_onnx(model, tmp_path / "model.onnx", **options)
    register_onnx()
    text = skl2onnx.common.data_types.StringTensorType([None, 2])
    wide = skl2onnx.common.data_types.FloatTensorType([None, 3])
    for kind, words in ((text, "one matrix of numbers"), (wide, "fitted on 2 features, and its input has 3")):
        with pytest.raises(ProblemError, match=words):
            skl2onnx.convert_sklearn(model, initial_types=[("X", kind)])
    (tmp_path / "model").write_text(
        "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 0\nrho 0\nlabel 1 2\nnr_sv 0 0\nSV\n"
    )
    with pytest.raises(ProblemError, match=r"0 support vectors of 2000000000 features take .* bytes"):
        to_onnx(from_libsvm(tmp_path / "model", 2_000_000_000))
    (tmp_path / "model").unlink()
    monkeypatch.setattr(onnx_parts, "MAX_BYTES", 100)
    with pytest.raises(ProblemError, match=r"support vectors of 2 features take .* bytes"):
        to_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_without_skl2onnx_the_pip_line_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(SolverUnavailable, match=r"pip install 'dualflow\[onnx\]'"):
        to_onnx(SVC().fit(M, T))
