"""A cascade's rows as bytes, without loss, and its model in files of other kinds."""

import numpy as np
import pytest
from dualflow.core._points import fold_words

from dualflow import CascadeSVC, ProblemError, load
from dualflow.cascade import exchange
from dualflow.interchange import from_libsvm, to_libsvm, to_onnx


def mixed_columns(n, rng):
    """Rows with columns of every kind: bits, bytes, float32 and float64."""
    return np.column_stack(
        [
            rng.integers(0, 2, n),
            np.where(rng.random(n) < 0.5, -0.3, 1.7),
            np.full(n, 2.5),
            rng.integers(0, 256, n),
            rng.integers(0, 40_000, n),
            rng.normal(size=n).astype(np.float32),
            rng.normal(size=n),
            1e300 * rng.random(n),
        ]
    ).astype(float)


def test_packed_rows_are_the_rows_themselves():
    """Three columns take a bit each, one a byte, two four bytes, two eight."""
    rng = np.random.default_rng(1)
    parts = [mixed_columns(n, rng) for n in (300, 1, 50)]
    packing = exchange.Packing.of([exchange.columns_of(part) for part in parts])
    assert [len(of) for of in (packing.bits, packing.byte, packing.single, packing.double)] == [3, 1, 2, 2]
    for part in (*parts, parts[0][:0]):
        packed = packing.pack(part)
        assert packed.shape == (len(part), 1 + 1 + 2 * 4 + 2 * 8)
        assert np.array_equal(packing.unpack(packed), part)


def test_a_column_takes_a_bit_only_if_all_parts_hold_the_same_two_numbers():
    first, second = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [1.0, 0.5]])
    packing = exchange.Packing.of([exchange.columns_of(first), exchange.columns_of(second)])
    assert packing.bits.tolist() == [0]
    assert packing.single.tolist() == [1]
    assert all(np.array_equal(packing.unpack(packing.pack(part)), part) for part in (first, second))


def test_one_hot_rows_travel_as_bits():
    rng = np.random.default_rng(2)
    hot = (rng.random((600, 100)) < 0.2).astype(float)
    y = np.where(hot[:, :50].sum(axis=1) + rng.normal(size=600) > hot[:, 50:].sum(axis=1), 1, -1)
    packing = exchange.Packing.of([exchange.columns_of(hot)])
    model = CascadeSVC(partitions=3, random_state=0).fit(hot, y)
    row = packing.pack(model.support_vectors_).nbytes / len(model.support_)
    assert row == 13  # 100 bits
    assert np.array_equal(model.support_vectors_, hot[model.support_])


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request):
    """A model of two or three classes, with points far from the origin, which the model subtracts."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(240, 3)) + 5.0
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=240), [4.6, 5.4] if request.param == 3 else [5.0])
    return CascadeSVC(partitions=3, random_state=0).fit(X, y), X


def test_a_saved_model_predicts_the_same_bits(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    for name in ("classes_", "support_", "support_vectors_", "n_support_", "dual_coef_", "intercept_"):
        assert np.array_equal(getattr(again, name), getattr(model, name)), name
    assert not hasattr(again, "certificates_")
    assert not hasattr(again, "rounds_")
    again.save(tmp_path / "again")
    assert (tmp_path / "model").read_bytes() == (tmp_path / "again").read_bytes()


def test_a_file_of_coefficients_in_other_pairs_is_refused(fitted, tmp_path):
    """Support vectors of another class than their coefficients' pairs are no model."""
    model, _ = fitted
    counts = model.n_support_.copy()
    wrong = CascadeSVC().set_params(**model.get_params())
    wrong.__dict__.update(model.__dict__)
    wrong.n_support_ = counts + np.eye(len(counts), dtype=int)[0]
    wrong.save(tmp_path / "model")
    with pytest.raises(ProblemError, match="do not go together"):
        load(tmp_path / "model")
    if len(counts) == 3:
        wrong.n_support_, wrong._pair_coef = counts, model._pair_coef[:, ::-1].copy()
        wrong.save(tmp_path / "model")
        with pytest.raises(ProblemError, match="pair of other classes"):
            load(tmp_path / "model")


def test_libsvms_file_predicts_the_same_labels(fitted, tmp_path):
    model, X = fitted
    to_libsvm(model, tmp_path / "model")
    assert np.array_equal(from_libsvm(tmp_path / "model").predict(X), model.predict(X))


def test_an_onnx_graph_has_the_same_values(fitted):
    pytest.importorskip("skl2onnx", reason="pip install 'dualflow[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime")
    model, X = fitted
    session = runtime.InferenceSession(to_onnx(model, dtype="float64").SerializeToString())
    labels, values = session.run(None, {"X": X})
    assert np.abs(values - model.decision_function(X)).max() < 1e-11
    assert np.array_equal(labels, model.predict(X))


def test_a_pool_lends_its_rows_to_the_one_before():
    rng = np.random.default_rng(0)
    for leaves, joins in ((0, 0), (5, 0), (0, 7), (6, 9), (20, 3), (20, 0)):
        rows = rng.choice(100, 20 + joins, replace=False)
        packed = rng.integers(0, 256, (len(rows), 11), dtype=np.uint8)
        numbers = [
            np.full(len(rows), 2),
            rows,
            packed,
            rng.normal(size=len(rows)),
            rng.random(len(rows)),
            rng.random(len(rows)),
        ]
        own, invaders = (
            exchange.Survivors(*(column[J] for column in numbers))
            for J in (np.argsort(rows[:20]), 20 + np.argsort(rows[20:]))
        )
        before, idle = own.packed.copy(), rng.choice(own.row, leaves, replace=False)
        following, lent = own.followed(idle, invaders)
        expected = np.sort(np.setdiff1d(rows, idle))
        place = [int(np.flatnonzero(rows == row)[0]) for row in expected]
        for name, column in zip(("part", "row", "packed", "target", "weight", "alpha"), numbers, strict=True):
            np.testing.assert_array_equal(getattr(following, name), column[place])
        J = rng.permutation(20)[:13]
        np.testing.assert_array_equal(exchange.rows_of([following.packed, lent.packed], len(place) + J), before[J])
        if leaves + joins:
            assert lent.packed.lender is following.packed
            assert len(lent.packed.rest) == leaves


@pytest.mark.parametrize("n", [0, 1, 9, 10, 11, 37])
def test_words_are_folded_as_whole_numbers_are(n):
    """Beside Python's own numbers, which are not modulo 2⁶⁴."""
    rng = np.random.default_rng(n)
    words, places = rng.integers(0, 1 << 63, n, dtype=np.uint64) * 2 + 1, rng.integers(0, 1 << 63, 10, dtype=np.uint64)
    words.flags.writeable = False
    mixed = [int(word) ^ int(word) >> 32 for word in words]
    sums = [sum(a * int(b) for a, b in zip(mixed[k : k + 10], places, strict=False)) for k in range(0, n, 10)]
    assert fold_words(words, places).tolist() == [one % (1 << 64) for one in sums]
