"""ONNX: pipelines and estimators of scikit-learn around ours, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import BaggingClassifier, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dualflow import SVC, SVDD, SVR, FidelityKernel, ProblemError, SolverUnavailable, SVCSearchCV
from dualflow.core.runtime.imports import call_after_import
from dualflow.interchange import from_libsvm, onnx_parts, register_onnx, to_onnx
from tests.combinations import often
from tests.interchange.test_onnx import TI, I, M, T, answers, same

skl2onnx = pytest.importorskip("skl2onnx", reason="pip install 'dualflow[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install 'dualflow[onnx]'")


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
        (SVC(kernel=lambda a, b: a @ b.T).fit(M, T), "a callable, <lambda>, which ONNX graphs and C headers cannot"),
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


@pytest.mark.parametrize("imports", often(["skl2onnx, dualflow", "dualflow, skl2onnx"], "dualflow, skl2onnx"))
def test_registered_without_a_call_in_either_order_of_imports(imports):
    code = f"""
import importlib.util, sys
import {imports.split(", ")[0]}
importlib.util.find_spec("skl2onnx")  # asks for the package, and does not import it
import {imports.split(", ")[1]}
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
X = np.arange(6.0)[:, None]
model = make_pipeline(StandardScaler(), dualflow.SVC()).fit(X, [0, 0, 0, 1, 1, 1])
print([output.name for output in skl2onnx.to_onnx(model, X).graph.output])
assert not any("dualflow" in type(finder).__module__ for finder in sys.meta_path)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "['label', 'scores']\n", done.stderr


def test_a_package_that_is_not_imported_is_not_imported_and_a_failure_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "package_of_a_user.py").write_text("value = 1\n")
    call_after_import("package_of_a_user", "dualflow.no_such_module:f")
    call_after_import("package_of_a_user", "dualflow.no_such_module:f")
    assert "package_of_a_user" not in sys.modules
    with pytest.warns(RuntimeWarning, match="could not be called after the import of package_of_a_user") as caught:
        import package_of_a_user
    assert len(caught) == 1
    assert package_of_a_user.value == 1
    monkeypatch.delitem(sys.modules, "package_of_a_user")


IMPUTE = SimpleImputer(missing_values="", strategy="most_frequent")


def frame_of_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.normal(40, 10, 60), "income": rng.normal(3, 1, 60), "rooms": rng.integers(1, 5, 60)}
    )
    frame["town"], frame["note"] = rng.choice(["a", "b", "c"], 60), "x"
    return frame, (frame.age + 10 * (frame.town == "a") > 42).astype(int)


@pytest.mark.parametrize(
    "columns",
    [
        [(StandardScaler(), ["age", "income"]), (OneHotEncoder(), ["town"])],
        [(StandardScaler(), ["income"]), (OneHotEncoder(), ["rooms"]), ("passthrough", ["age"]), ("drop", ["note"])],
        [
            (make_pipeline(SimpleImputer(missing_values="", strategy="most_frequent"), OneHotEncoder()), ["town"]),
            ("passthrough", ["age"]),
        ],
        [(StandardScaler(), slice(0, 2)), (OneHotEncoder(), [3])],
    ],
    ids=["numbers and text", "whole numbers", "a pipeline within", "slices and places"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
# By scikit-learn 1.6, of columns that skl2onnx reads.
@pytest.mark.filterwarnings(r"ignore:\s*The format of the columns of the 'remainder':FutureWarning")
def test_named_columns(columns, dtype):
    frame, y = frame_of_columns()
    model = make_pipeline(make_column_transformer(*columns), SVC()).fit(frame, y)
    made = to_onnx(model, dtype=dtype)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    kinds = {"tensor(string)": object, "tensor(int64)": np.int64, "tensor(double)": float, "tensor(float)": np.float32}
    inputs = {one.name: kinds[one.type] for one in session.get_inputs()}
    known = frame.assign(note=0.0)  # a column that the model does not use
    feed = {name: known[[name]].to_numpy().astype(kind) for name, kind in inputs.items()}
    label, scores = session.run(None, feed)
    # skl2onnx computes codes of text in float32, and rounds what it joins with them.
    near = 1e-3 if dtype == "float32" else 1e-6 if "town" in feed else 1e-9
    np.testing.assert_allclose(scores, model.decision_function(frame), rtol=0, atol=near)
    assert (label == model.predict(frame)).mean() > 0.95
    search = GridSearchCV(model, {"svc__C": [1.0, 2.0]}).fit(frame, y)
    assert [one.name for one in to_onnx(search).graph.input] == [one.name for one in made.graph.input]


def test_the_frame_itself_tells_skl2onnx_the_columns():
    frame, y = frame_of_columns()
    model = make_pipeline(make_column_transformer((OneHotEncoder(), ["town"]), (StandardScaler(), ["age"])), SVC())
    made = skl2onnx.to_onnx(model.fit(frame[["town", "age"]], y), frame[["town", "age"]])
    assert [one.name for one in made.graph.input] == ["town", "age"]
