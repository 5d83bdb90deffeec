"""C headers, compiled by the C compiler of this machine, against the models that they were made of."""

import shutil
import subprocess

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from dualflow import LSSVR, SVC, SVDD, SVR, IncrementalSVC, NuSVC, OneClassSVM, ProblemError
from dualflow.interchange import from_libsvm, to_c, to_libsvm

COMPILER = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler on the path")

IRIS, SPECIES = load_iris(return_X_y=True)
CELLS, TUMOUR = load_breast_cancer(return_X_y=True)
RNG = np.random.default_rng(5)
#: 10 000 points around those of each data set.
NEW_IRIS = IRIS[RNG.integers(len(IRIS), size=10_000)] + 0.3 * RNG.normal(size=(10_000, 4))
NEW_CELLS = CELLS[RNG.integers(len(CELLS), size=10_000), :6] * RNG.uniform(0.7, 1.3, size=(10_000, 6))

MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "model.h"
int main(void) {
  double in[MODEL_FEATURES];
  while (fread(in, sizeof in, 1, stdin) == 1) {
    model_number x[MODEL_FEATURES], values[MODEL_VALUES];
    for (int i = 0; i < MODEL_FEATURES; i++) x[i] = (model_number)(FIXED ? floor_(in[i] * 65536.0 + 0.5) : in[i]);
    double out[MODEL_VALUES + 1];
    model_decide(x, values);
    for (int k = 0; k < MODEL_VALUES; k++) out[k] = values[k] / (FIXED ? 65536.0 : 1.0);
    out[MODEL_VALUES] = model_predict(x) / (FIXED && REGRESSION ? 65536.0 : 1.0);
    fwrite(out, sizeof out, 1, stdout);
  }
  return 0;
}
"""


def compiled(folder, text, X, fixed=False, regression=False):
    """Return decision values and predictions of the header at X."""
    (folder / "model.h").write_text(text)
    floor = "static double floor_(double v) { long long n = (long long)v; return n > v ? n - 1 : n; }\n"
    flags = f"#define FIXED {int(fixed)}\n#define REGRESSION {int(regression)}\n"
    (folder / "main.c").write_text(flags + floor + MAIN)
    warnings = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1"]
    subprocess.run([COMPILER, *warnings, "main.c", "-o", "main", "-lm"], cwd=folder, check=True)
    done = subprocess.run(
        ["./main"], cwd=folder, input=np.ascontiguousarray(X).tobytes(), capture_output=True, check=True
    )
    out = np.frombuffer(done.stdout).reshape(len(X), -1)
    return out[:, :-1], out[:, -1]


def expected(model, X):
    """Return the values of the pairs (or the only ones), and the predictions as the header gives them."""
    if hasattr(model, "classes_"):
        values = model.decision_function(X)
        labels = np.searchsorted(model.classes_, model.predict(X))
        return values.reshape(len(X), -1), labels
    if hasattr(model, "decision_function"):
        return model.decision_function(X).reshape(-1, 1), model.predict(X)
    return model.predict(X).reshape(-1, 1), model.predict(X)


def scaled():
    return StandardScaler(), MinMaxScaler((-1, 1))


MODELS = {
    "two classes, rbf": (lambda: SVC(C=5), CELLS[:, :6], TUMOUR, NEW_CELLS),
    "two classes, linear": (lambda: SVC(kernel="linear"), CELLS[:, :6], TUMOUR, NEW_CELLS),
    "three classes, rbf": (lambda: SVC(decision_function_shape="ovo"), IRIS, SPECIES, NEW_IRIS),
    "three classes, linear": (lambda: SVC(kernel="linear", decision_function_shape="ovo"), IRIS, SPECIES, NEW_IRIS),
    "three classes, poly": (
        lambda: SVC(kernel="poly", coef0=1.0, decision_function_shape="ovo"), IRIS, SPECIES, NEW_IRIS,
    ),
    "nu, sigmoid": (lambda: NuSVC(nu=0.4, kernel="sigmoid", gamma=0.05), CELLS[:, :6], TUMOUR, NEW_CELLS),
    "regression": (lambda: SVR(C=3), IRIS[:, :3], IRIS[:, 3], NEW_IRIS[:, :3]),
    "least squares": (lambda: LSSVR(C=3, kernel="linear"), IRIS[:, :3], IRIS[:, 3], NEW_IRIS[:, :3]),
    "ball": (lambda: SVDD(nu=0.1), CELLS[:, :6], None, NEW_CELLS),
    "ball, linear": (lambda: SVDD(nu=0.1, kernel="linear"), CELLS[:, :6], None, NEW_CELLS),
    "ball, poly": (lambda: SVDD(nu=0.1, kernel="poly", degree=2, coef0=1.0), IRIS, None, NEW_IRIS),
    "plane": (lambda: OneClassSVM(nu=0.1), CELLS[:, :6], None, NEW_CELLS),
    "stream": (lambda: IncrementalSVC(C=5), CELLS[:, :6], TUMOUR, NEW_CELLS),
}  # fmt: skip


def fitted(name):
    make, X, y, new = MODELS[name]
    model = make_pipeline(*scaled(), make())
    return (model.fit(X) if y is None else model.fit(X, y)), new


@needs_compiler
@pytest.mark.filterwarnings("ignore:kernel. the problem's matrix is indefinite")
@pytest.mark.parametrize("name", MODELS)
def test_double_headers_give_the_values_of_the_model(tmp_path, name):
    model, new = fitted(name)
    values, labels = compiled(tmp_path, to_c(model, number="double"), new)
    theirs, predicted = expected(model, new)
    np.testing.assert_allclose(values, theirs, atol=1e-9 * np.abs(theirs).max())
    near = np.abs(theirs).min(axis=1) < 1e-8 * np.abs(theirs).max()
    if "regression" in name or "squares" in name:
        np.testing.assert_allclose(labels, predicted, atol=1e-9 * np.abs(predicted).max())
    else:
        np.testing.assert_array_equal(labels[~near], predicted[~near])


@needs_compiler
@pytest.mark.parametrize("name", ["two classes, rbf", "three classes, linear", "regression", "ball"])
def test_float_headers_lose_the_digits_of_float(tmp_path, name):
    model, new = fitted(name)
    values, _ = compiled(tmp_path, to_c(model, tmp_path / "model.h"), new)
    theirs, _ = expected(model, new)
    coefficients = np.abs(model[-1].dual_coef_).sum()
    assert np.abs(values - theirs).max() <= 1e-5 * (1.0 + coefficients)


FIXED = [name for name in MODELS if "poly" not in name and "sigmoid" not in name and name != "ball, linear"]


@needs_compiler
@pytest.mark.parametrize("name", FIXED)
def test_fixed_headers_are_within_the_error_that_the_page_states(tmp_path, name):
    model, new = fitted(name)
    new = np.rint(new * 65536) / 65536  # what the header is given
    values, labels = compiled(tmp_path, to_c(model, number="fixed"), new, True, "regr" in name or "squares" in name)
    theirs, predicted = expected(model, new)
    last = model[-1]
    if getattr(last, "kernel", "") == "linear":
        bound = 2e-5 * (1.0 + np.abs(last.coef_).sum())
    else:
        bound = 1e-5 * (1.0 + 2.0 * np.abs(last.dual_coef_).sum())
    error = np.abs(values - theirs).max(axis=1)
    assert error.max() <= bound
    clear = np.abs(theirs).min(axis=1) > bound
    if not ("regr" in name or "squares" in name):
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(labels[clear], predicted[clear])


@needs_compiler
def test_text_labels_and_models_of_libsvm(tmp_path):
    names = np.array(["über", 'a "b"', "c\\d"])[SPECIES]
    text = to_c(SVC(decision_function_shape="ovo").fit(IRIS, names), number="double")
    compiled(tmp_path, text, NEW_IRIS[:50])
    assert r'"\303\274ber"' in text
    model = SVC(decision_function_shape="ovo").fit(IRIS, SPECIES)
    to_libsvm(model, tmp_path / "model")
    own, labels = compiled(tmp_path, to_c(from_libsvm(tmp_path / "model", 4), number="double"), NEW_IRIS)
    np.testing.assert_allclose(own, model.decision_function(NEW_IRIS), atol=1e-9)
    np.testing.assert_array_equal(labels, model.predict(NEW_IRIS))


@needs_compiler
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("number", ["float", "double", "fixed"])
def test_a_regression_without_weights_is_its_constant(tmp_path, number, kernel):
    model = SVR(kernel=kernel).fit(IRIS, np.full(len(IRIS), 2.5))
    values, _ = compiled(tmp_path, to_c(model, number=number), IRIS[:5], number == "fixed", True)
    np.testing.assert_allclose(values, 2.5, atol=1e-4)


@needs_compiler
def test_the_least_label_is_a_constant_of_c(tmp_path):
    least = np.iinfo(np.int64).min
    text = to_c(SVC().fit(IRIS[:100], np.where(SPECIES[:100] == 0, least, 1)))
    compiled(tmp_path, text, IRIS[:5])
    assert f"{{({least + 1} - 1), 1}}" in text


@needs_compiler
def test_scales_are_exact_beside_large_offsets(tmp_path):
    seconds = 1.7e9 + 1e5 * IRIS  # times since 1970, over some days
    model = make_pipeline(StandardScaler(), SVR()).fit(seconds[:, :3], IRIS[:, 3])
    values, _ = compiled(tmp_path, to_c(model, number="double"), seconds[:, :3], False, True)
    np.testing.assert_allclose(values[:, 0], model.predict(seconds[:, :3]), atol=1e-9)


def test_steps_that_are_left_out_and_names_of_columns():
    pandas = pytest.importorskip("pandas")
    plain = to_c(make_pipeline(StandardScaler(), SVC()).fit(IRIS, SPECIES))
    frame = pandas.DataFrame(IRIS, columns=list("abcd"))
    assert to_c(make_pipeline("passthrough", StandardScaler(), SVC()).fit(frame, SPECIES)) == plain


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: SVC(kernel=lambda a, b: a @ b.T).fit(IRIS, SPECIES), {}, "callable"),
        (lambda: SVC(break_ties=True).fit(IRIS, SPECIES), {}, "break_ties"),
        (lambda: SVC(kernel="poly").fit(IRIS, SPECIES), {"number": "fixed"}, "floating-point"),
        (lambda: SVC().fit(1e6 * IRIS, SPECIES), {"number": "fixed"}, "scale"),
        (lambda: SVC().fit(IRIS, SPECIES), {"name": "3d"}, "identifier"),
        (lambda: SVC().fit(IRIS, SPECIES), {"number": "half"}, "number"),
        (lambda: make_pipeline(PCA(2), SVC()).fit(IRIS, SPECIES), {}, "PCA"),
        (lambda: make_pipeline(MinMaxScaler(clip=True), SVC()).fit(IRIS, SPECIES), {}, "MinMaxScaler"),
        (lambda: SVC, {}, "fitted estimator"),
        (lambda: StandardScaler().fit(IRIS), {}, "StandardScaler is no model"),
        (lambda: svm.SVC().fit(IRIS, SPECIES), {}, "SVC is no model"),
        (
            lambda: make_pipeline(FunctionTransformer(lambda X: np.c_[np.abs(X[:, :3]), 1e12 + X[:, 3]]), SVC()).fit(
                IRIS, SPECIES
            ),
            {},
            "FunctionTransformer",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(make, options, message):
    with pytest.raises(ProblemError, match=message):
        to_c(make(), **options)
