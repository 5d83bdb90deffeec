"""`dualflow convert`: what is written says what was read, and what cannot be is one sentence and exit code 2."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons

import dualflow
from dualflow import SVC, SVDD, SVR, EcoSVC
from dualflow.interchange import from_libsvm, to_libsvm
from tests.cli.test_cli import refused, run

X, Y = load_iris(return_X_y=True)
M, T = make_moons(60, noise=0.1, random_state=0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    SVC().fit(X, Y).save("iris.dualflow")
    return tmp_path


def answers(path, Z):
    onnxruntime = pytest.importorskip("onnxruntime", reason="pip install 'dualflow[onnx]'")
    session = onnxruntime.InferenceSession(path)
    return session.run(None, {"X": Z})


def test_a_saved_model_to_libsvm_and_on_to_onnx(folder):
    pytest.importorskip("skl2onnx", reason="pip install 'dualflow[onnx]'")
    model = dualflow.load("iris.dualflow")
    result = run("convert", "iris.dualflow", "iris.model")
    assert result.exit_code == 0, result.output
    count = len(model.support_)
    assert result.stdout == f"iris.model: SVC with kernel rbf, 4 features, {count} support vectors, 3 classes\n"
    model.set_params(decision_function_shape="ovo")
    values = model.decision_function(X)
    assert np.allclose(from_libsvm("iris.model").decision_function(X), values, atol=1e-9)
    for source, options in (("iris.dualflow", ()), ("iris.model", ("--n-features", 4)), ("iris.model", ())):
        for dtype in ("float32", "float64"):
            options = (*options, "--dtype", dtype, "--overwrite")
            result = run("convert", source, "iris.onnx", *options)
            assert result.exit_code == 0, result.output
            label, scores = answers("iris.onnx", X.astype(dtype))
            assert np.array_equal(label, model.predict(X))
            if source == "iris.model":
                assert np.allclose(scores, values, atol=1e-4 if dtype == "float32" else 1e-9)


def test_other_models_and_formats_by_name(folder):
    pytest.importorskip("skl2onnx", reason="pip install 'dualflow[onnx]'")
    for model in (SVR().fit(M, T), SVDD(nu=0.2).fit(M), EcoSVC().fit(M, T)):
        model.save("model.bin")
        result = run("convert", "model.bin", "out", "--from", "dualflow", "--to", "onnx", "--overwrite")
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(f"out: {type(model).__name__} with kernel rbf, 2 features, ")
        assert len(answers("out", M[:3].astype(np.float32))[0]) == 3
        result = run("convert", "model.bin", "text", "--from", "dualflow", "--to", "libsvm", "--overwrite")
        assert result.exit_code == 0, result.output
        assert from_libsvm("text").n_features_in_ == 2
        result = run("convert", "text", "again.ONNX", "--from", "libsvm", "--overwrite")
        assert result.exit_code == 0, result.output
    assert "c_svc with kernel rbf, 2 features" in result.stdout


def test_what_cannot_be_converted_is_one_sentence(folder):
    to_libsvm(SVC().fit(M, T), "moons.model")
    SVC().fit(M, np.array(["a", "b"])[T]).save("words.dualflow")
    SVC(kernel="precomputed").fit(M @ M.T, T).save("matrix.dualflow")
    (folder / "junk.dualflow").write_bytes(b"PK\x03\x04 \x1b[2J")
    (folder / "junk.model").write_text("\x1b[2J")
    (folder / "folder.onnx").mkdir()
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for arguments, words in (
        (("nowhere.dualflow", "a.onnx"), ("nowhere.dualflow", "No such file")),
        (("iris", "a.onnx"), ("iris has none of the suffixes", ".dualflow (dualflow)", "--from dualflow|libsvm|onnx")),
        (("iris.dualflow", "a.txt"), ("a.txt has none of the suffixes", "--to")),
        (("iris.dualflow", "a.onnx", "--to", "onx"), ("--to onx is not one of", "did you mean 'onnx'")),
        (("a.onnx", "iris.model"), ("ONNX files can be written but not read",)),
        (("moons.model", "a.dualflow"), ("training data", "fit again")),
        (("iris.dualflow", "b.dualflow"), ("nothing to convert",)),
        (("iris.dualflow", "b.model", "--dtype", "float32"), ("--dtype float32 is for ONNX",)),
        (("iris.dualflow", "b.onnx", "--dtype", "float16"), ("dtype='float16'",)),
        (("iris.dualflow", "b.onnx", "--n-features", "4"), ("--n-features 4 is for LIBSVM",)),
        (("moons.model", "b.onnx", "--n-features", "1"), ("--n-features=1", "index 2")),
        (("words.dualflow", "b.model"), ("'a', 'b'", "LabelEncoder")),
        (("matrix.dualflow", "b.onnx"), ("kernel is 'precomputed'",)),
        (("junk.dualflow", "b.onnx"), ("junk.dualflow",)),
        (("junk.model", "b.onnx"), ("junk.model",)),
        (("iris.dualflow", "no/such/b.onnx"), ("does not exist",)),
        (("iris.dualflow", "folder.onnx"), ("is a folder",)),
        (("iris.dualflow", "moons.model"), ("moons.model exists already", "--overwrite")),
        (("iris.dualflow", "iris.dualflow", "--to", "onnx", "--overwrite"), ("is SOURCE itself",)),
    ):
        result = run("convert", *arguments)
        refused(result, *words)
        assert "\x1b" not in result.stderr
    assert before == {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_without_skl2onnx_the_pip_line_is_said(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    refused(run("convert", "iris.dualflow", "iris.onnx"), "pip install 'dualflow[onnx]'")
    assert [path.name for path in folder.iterdir()] == ["iris.dualflow"]
